// Cuts nodes out of a graph into graphs of their own, each for one device.
#include "quern/graph/graph.hpp"

#include <algorithm>

namespace quern::graph {
namespace {

/// How often nodes read and write a value's memory.
struct Touches {
  std::uint64_t reads = 0, writes = 0;
};

/// The kind that a value has in a part; constants, state and inputs keep theirs.
std::uint32_t kind_in_part(std::uint32_t kind, const Touches& inside, const Touches& all) {
  if (kind != QUERN_VALUE_INTERNAL && kind != QUERN_VALUE_OUTPUT) return kind;
  if (inside.writes == 0) return QUERN_VALUE_INPUT;
  // Slices of one buffer made on both sides: the host binds the same memory to both parts.
  if (all.writes > inside.writes) return inside.reads > 0 ? QUERN_VALUE_STATE : QUERN_VALUE_OUTPUT;
  if (all.reads > inside.reads || kind == QUERN_VALUE_OUTPUT) return QUERN_VALUE_OUTPUT;
  return QUERN_VALUE_INTERNAL;
}

/// Counts the touches of a node by root, and calls `each` with every value that it names.
template <typename Each>
void count_touches(const Graph& graph, const Node& node, std::vector<Touches>& touches, const Each& each) {
  const auto read = [&](ValueId id) {
    if (id == no_value) return;
    ++touches[graph.root(id)].reads;
    each(id);
  };
  for (const ValueId id : node.inputs) read(id);
  read(node.predicate);
  for (const ValueId id : node.outputs) {
    if (id == no_value) continue;
    ++touches[graph.root(id)].writes;
    each(id);
  }
}

}  // namespace

Graph::Part Graph::part(const std::vector<std::uint32_t>& node_ids, std::string name) const {
  return std::move(parts({node_ids}, name).front());
}

std::vector<Graph::Part> Graph::parts(const std::vector<std::vector<std::uint32_t>>& node_ids, const std::string& name) const {
  std::vector<Touches> all(values_.size()), inside(values_.size());  // by root
  for (const Node& node : nodes_) count_touches(*this, node, all, [](ValueId) {});
  // What a part sets in these it takes back, so that the work of a part goes by its own size.
  std::vector<bool> needed(values_.size());
  std::vector<ValueId> of_part(values_.size(), no_value);
  std::vector<Part> result;
  for (const std::vector<std::uint32_t>& ids : node_ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= nodes_.size() || (i > 0 && ids[i] <= ids[i - 1]))
        throw Error(QUERN_INVALID_ARGUMENT, concat("a part of graph '", name_, "' asks for node ", ids[i], " at place ", i,
                                                   "; ids must ascend and be below ", nodes_.size()));

    Part part{Graph(name), {}};
    const auto need = [&](ValueId id) {
      if (needed[id]) return;
      needed[id] = true;
      part.whole.push_back(id);
    };
    for (const std::uint32_t n : ids)
      count_touches(*this, nodes_[n], inside, [&](ValueId id) {
        need(id);
        need(root(id));
      });
    // The exact extent of a ranged dimension lies in a value that the part must see too.
    std::vector<bool> ranged(symbols_.size());
    for (const ValueId id : part.whole)
      for (const Dim& dim : values_[id].shape)
        if (dim.symbol != 0) ranged[dim.symbol - 1] = true;
    for (std::size_t s = 0; s < symbols_.size(); ++s)
      if (ranged[s] && symbols_[s].extent != no_value) need(symbols_[s].extent);
    std::ranges::sort(part.whole);  // as in the whole graph, so that a root stands before its views

    // Symbols keep their ids, so that the bounds of a run hold for every part.
    part.graph.symbols_ = symbols_;
    for (std::size_t i = 0; i < part.whole.size(); ++i) {
      const ValueId id = part.whole[i];
      Value value = values_[id];
      if (value.alias_of == no_value) value.kind = kind_in_part(value.kind, inside[id], all[id]);
      else value.alias_of = of_part[value.alias_of];
      of_part[id] = static_cast<ValueId>(i);
      part.graph.values_.push_back(std::move(value));
      part.graph.written_.push_back(written_[id]);
    }
    for (Symbol& symbol : part.graph.symbols_)
      if (symbol.extent != no_value) symbol.extent = of_part[symbol.extent];
    for (const std::uint32_t n : ids) {
      Node node = nodes_[n];
      const auto move = [&](ValueId& id) {
        if (id != no_value) id = of_part[id];
      };
      for (ValueId& id : node.inputs) move(id);
      for (ValueId& id : node.outputs) move(id);
      move(node.predicate);
      part.graph.nodes_.push_back(std::move(node));
    }
    for (const ValueId id : part.whole) {
      needed[id] = false;
      inside[id] = {};
      of_part[id] = no_value;
    }
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace quern::graph
