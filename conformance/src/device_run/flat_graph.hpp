// A whole graph, or one node of it, in the form that the ABI takes.
#pragma once

#include "case_table/whole_graph.hpp"
#include "judge/judge.hpp"
#include "quern/quern_plan.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace quern::conformance {

/// One node of a whole graph, by its place.
struct OnlyNode {
  std::size_t at;
};

/// Owns the arrays that graph() points into.
class FlatGraph {
 public:
  /// All nodes.
  FlatGraph(const WholeGraph& whole, Numerics numerics) : FlatGraph(whole, numerics, std::set<int>()) {}
  /// All nodes; `marked`: values that are outputs although the graph has them as internal; `determinism`: what each node asks for.
  FlatGraph(const WholeGraph& whole, Numerics numerics, const std::set<int>& marked,
            std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE);
  /// One node alone: what it reads is bound as input, constant or state, what it writes as output or state.
  FlatGraph(const WholeGraph& whole, Numerics numerics, OnlyNode node);
  FlatGraph(const FlatGraph&) = delete;
  FlatGraph& operator=(const FlatGraph&) = delete;

  const quern_graph* graph() const noexcept { return &graph_; }
  /// Value of the whole graph -> its id here, of those that need memory.
  const std::map<int, std::uint32_t>& bound() const noexcept { return bound_; }
  /// The value of the whole graph that id stands for.
  int value_of(std::uint32_t id) const { return values_of_.at(id); }

  /// Says that a constant has been packed under `layout`; and gives the bytes of one, which the caller keeps.
  void set_layout(int value, const std::string& layout);
  void set_data(int value, std::span<const std::byte> bytes);

 private:
  struct Node {
    std::vector<std::uint32_t> inputs, outputs;
    std::vector<quern_attribute> attributes;
  };
  std::uint32_t add_value(int value, std::uint32_t kind, std::uint32_t alias_of);
  void add_part(int value, std::uint32_t kind);
  void add_place(const GraphValue& part, quern_value& v) const;
  void add_node(const GraphNode& node, Numerics numerics);
  void finish();

  const WholeGraph& whole_;
  std::uint32_t determinism_ = QUERN_DETERMINISM_REPEATABLE;
  std::map<int, std::uint32_t> ids_, bound_;
  std::vector<int> values_of_;
  std::vector<quern_value> values_;
  std::vector<std::unique_ptr<Node>> node_data_;
  std::vector<quern_node> nodes_;
  std::map<int, std::string> layouts_;
  std::vector<quern_symbol> symbols_;
  quern_graph graph_{};
};

}  // namespace quern::conformance
