// Cuts nodes out of a graph into a graph of their own, for one device.
#include "quern/graph/graph.hpp"

namespace quern::graph {
namespace {

/// What the nodes inside and outside a part do with a value's memory, by root.
struct Use {
  bool read_inside = false, written_inside = false, read_outside = false, written_outside = false;
};

/// The kind that a value has in a part; constants, state and inputs keep theirs.
std::uint32_t kind_in_part(std::uint32_t kind, const Use& use) {
  if (kind != QUERN_VALUE_INTERNAL && kind != QUERN_VALUE_OUTPUT) return kind;
  if (!use.written_inside) return QUERN_VALUE_INPUT;
  // Slices of one buffer made on both sides: the host binds the same memory to both parts.
  if (use.written_outside) return use.read_inside ? QUERN_VALUE_STATE : QUERN_VALUE_OUTPUT;
  if (use.read_outside || kind == QUERN_VALUE_OUTPUT) return QUERN_VALUE_OUTPUT;
  return QUERN_VALUE_INTERNAL;
}

}  // namespace

Graph::Part Graph::part(const std::vector<std::uint32_t>& node_ids, std::string name) const {
  std::vector<bool> inside(nodes_.size());
  for (std::size_t i = 0; i < node_ids.size(); ++i) {
    if (node_ids[i] >= nodes_.size() || (i > 0 && node_ids[i] <= node_ids[i - 1]))
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("a part of graph '", name_, "' asks for node ", node_ids[i], " at place ", i,
                         "; ids must ascend and be below ", nodes_.size()));
    inside[node_ids[i]] = true;
  }

  std::vector<Use> uses(values_.size());
  std::vector<bool> needed(values_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const auto read = [&](ValueId id) {
      if (id == no_value) return;
      (inside[n] ? uses[root(id)].read_inside : uses[root(id)].read_outside) = true;
      if (inside[n]) needed[id] = needed[root(id)] = true;
    };
    for (const ValueId id : nodes_[n].inputs) read(id);
    read(nodes_[n].predicate);
    for (const ValueId id : nodes_[n].outputs) {
      if (id == no_value) continue;
      (inside[n] ? uses[root(id)].written_inside : uses[root(id)].written_outside) = true;
      if (inside[n]) needed[id] = needed[root(id)] = true;
    }
  }
  // The exact extent of a ranged dimension lies in a value that the part must see too.
  std::vector<bool> ranged(symbols_.size());
  for (std::size_t v = 0; v < values_.size(); ++v)
    if (needed[v])
      for (const Dim& dim : values_[v].shape)
        if (dim.symbol != 0) ranged[dim.symbol - 1] = true;
  for (std::size_t s = 0; s < symbols_.size(); ++s)
    if (ranged[s] && symbols_[s].extent != no_value) needed[symbols_[s].extent] = true;

  Part part{Graph(std::move(name)), {}};
  std::vector<ValueId> of_part(values_.size(), no_value);
  // Symbols keep their ids, so that the bounds of a run hold for every part.
  part.graph.symbols_ = symbols_;
  for (std::size_t v = 0; v < values_.size(); ++v) {
    if (!needed[v]) continue;
    Value value = values_[v];
    if (value.alias_of == no_value)
      value.kind = kind_in_part(value.kind, uses[v]);
    else
      value.alias_of = of_part[value.alias_of];  // a root stands before its views
    of_part[v] = static_cast<ValueId>(part.whole.size());
    part.whole.push_back(static_cast<ValueId>(v));
    part.graph.values_.push_back(std::move(value));
    part.graph.written_.push_back(written_[v]);
  }
  for (Symbol& symbol : part.graph.symbols_)
    if (symbol.extent != no_value) symbol.extent = of_part[symbol.extent];
  for (const std::uint32_t n : node_ids) {
    Node node = nodes_[n];
    const auto move = [&](ValueId& id) {
      if (id != no_value) id = of_part[id];
    };
    for (ValueId& id : node.inputs) move(id);
    for (ValueId& id : node.outputs) move(id);
    move(node.predicate);
    part.graph.nodes_.push_back(std::move(node));
  }
  return part;
}

}  // namespace quern::graph
