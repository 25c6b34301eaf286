// See placement.hpp.
#include "placement.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace quern::runtime {
namespace {

/// The value whose memory a value is a view of.
graph::ValueId root_of(const graph::Graph& graph, graph::ValueId id) {
  while (graph.value(id).alias_of != graph::no_value) id = graph.value(id).alias_of;
  return id;
}

/// Nodes that touch each state value that some node writes.
std::map<graph::ValueId, std::vector<std::uint32_t>> nodes_of_written_state(const graph::Graph& graph) {
  std::map<graph::ValueId, std::vector<std::uint32_t>> users;
  std::set<graph::ValueId> written;
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const graph::Node& node = graph.nodes()[n];
    const auto touch = [&](graph::ValueId id, bool write) {
      if (id == graph::no_value) return;
      const graph::ValueId root = root_of(graph, id);
      if (graph.value(root).kind != QUERN_VALUE_STATE) return;
      users[root].push_back(n);
      if (write) written.insert(root);
    };
    for (const graph::ValueId id : node.inputs) touch(id, false);
    for (const graph::ValueId id : node.outputs) touch(id, true);
  }
  std::erase_if(users, [&](const auto& entry) { return !written.contains(entry.first); });
  return users;
}

std::string describe(const graph::Node& node) {
  return node.name.empty() ? graph::op_name(node.op) : concat(graph::op_name(node.op), " '", node.name, "'");
}

}  // namespace

Placement place(const graph::Graph& graph, const std::vector<std::shared_ptr<loader::Device>>& devices, Fallback fallback,
                const Assignment& assignment) {
  std::vector<std::vector<NodeAnswer>> answers;
  for (const auto& device : devices) answers.push_back(ask_support(*device, graph));

  const auto assigned = [&](std::uint32_t node) {
    return assignment.first_device_of_node.empty() ? 0 : assignment.first_device_of_node[node];
  };
  const auto refusals = [&](std::uint32_t node, std::size_t below) {
    std::string text = assigned(node) > 0 ? assignment.reason : "";
    for (std::size_t d = assigned(node); d < below; ++d) {
      text += concat(text.empty() ? "" : "; ", devices[d]->label(), ": ", answers[d][node].text);
    }
    return text;
  };

  Placement result;
  const auto nodes = static_cast<std::uint32_t>(graph.nodes().size());
  for (std::uint32_t n = 0; n < nodes; ++n) {
    std::uint32_t d = assigned(n);
    while (d < devices.size() && !answers[d][n].yes) ++d;
    if (d == devices.size()) {
      throw Error(QUERN_UNSUPPORTED, concat("no device computes ", describe(graph.nodes()[n]), ": ", refusals(n, d)));
    }
    result.device_of_node.push_back(d);
    result.reason_of_node.push_back(refusals(n, d));
  }

  for (const auto& [state, users] : nodes_of_written_state(graph)) {
    std::uint32_t d = 0;
    for (const std::uint32_t n : users) d = std::max(d, assigned(n));
    const auto all = [&](std::uint32_t device) {
      return std::ranges::all_of(users, [&](std::uint32_t n) { return answers[device][n].yes; });
    };
    while (d < devices.size() && !all(d)) ++d;
    if (d == devices.size()) {
      throw Error(QUERN_UNSUPPORTED, concat("no device computes every node that uses '", graph.value(state).name, "'"));
    }
    for (const std::uint32_t n : users) {
      if (result.device_of_node[n] == d) continue;
      result.device_of_node[n] = d;
      if (d > 0) result.reason_of_node[n] = concat("it shares '", graph.value(state).name, "' with nodes that are there");
    }
  }

  if (fallback == Fallback::strict) {
    std::string text;
    std::size_t count = 0;
    for (std::uint32_t n = 0; n < nodes; ++n) {
      if (result.device_of_node[n] == 0) continue;
      if (count++ < 3) text += concat(text.empty() ? "" : "; ", describe(graph.nodes()[n]), ": ", result.reason_of_node[n]);
    }
    if (count > 0) {
      throw Error(QUERN_UNSUPPORTED,
                  concat("strict: ", devices[0]->label(), " does not compute ", count, " of ", nodes, " nodes of '", graph.name(),
                         "': ", text, count > 3 ? "; ..." : "", "; allow another device with fallback auto or warn"));
    }
  }
  return result;
}

std::vector<Segment> segments(const Placement& placement) {
  std::vector<Segment> result;
  for (std::uint32_t n = 0; n < placement.device_of_node.size(); ++n) {
    if (result.empty() || result.back().device != placement.device_of_node[n]) { result.push_back({placement.device_of_node[n], {}}); }
    result.back().nodes.push_back(n);
  }
  return result;
}

std::vector<Crossing> crossings(const graph::Graph& graph, const Placement& placement) {
  std::map<graph::ValueId, std::uint32_t> makers;            // the node that wrote a value last
  std::map<graph::ValueId, std::set<std::uint32_t>> copied;  // devices that have it from there
  std::vector<Crossing> result;
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const graph::Node& node = graph.nodes()[n];
    const std::uint32_t device = placement.device_of_node[n];
    const auto read = [&](graph::ValueId id) {
      if (id == graph::no_value) return;
      const graph::ValueId value = root_of(graph, id);
      const auto maker = makers.find(value);
      if (maker == makers.end() || graph.value(value).kind == QUERN_VALUE_STATE) return;
      const std::uint32_t from = placement.device_of_node[maker->second];
      if (from != device && copied[value].insert(device).second) result.push_back({value, from, device, maker->second, n});
    };
    for (const graph::ValueId id : node.inputs) read(id);
    read(node.predicate);
    for (const graph::ValueId id : node.outputs) {
      if (id == graph::no_value) continue;
      const graph::ValueId value = root_of(graph, id);
      makers[value] = n;
      copied.erase(value);
    }
  }
  return result;
}

}  // namespace quern::runtime
