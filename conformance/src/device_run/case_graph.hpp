// The one-node graph of a case, as the ABI wants it.
//
// Ranged rows make it a graph of one symbol; a count in device memory is a further state value.
#pragma once

#include "case_table/case.hpp"
#include "quern/quern_plan.h"

#include <string>
#include <vector>

namespace quern::conformance {

/// Owns the arrays that graph() points into. Value ids: the inputs that are present, in order, then the outputs, then what the case adds.
class CaseGraph {
 public:
  /// `conversions`: QUERN_CONVERT_... that the node allows; `determinism`: what it asks for.
  CaseGraph(const Case& c, std::uint32_t conversions, std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE);
  CaseGraph(const CaseGraph&) = delete;
  CaseGraph& operator=(const CaseGraph&) = delete;

  const quern_graph* graph() const noexcept { return &graph_; }
  std::uint32_t input_id(std::size_t input) const { return input_ids_.at(input); }  // QUERN_NONE: absent
  std::uint32_t output_id(std::size_t output) const { return output_ids_.at(output); }
  std::uint32_t count_id() const noexcept { return count_id_; }  // of ranged rows, one i32; QUERN_NONE: it is the run's bound

  /// Says that a constant has been packed under `layout` (a key of weights_plan).
  void set_layout(std::uint32_t value, std::string layout);
  /// Gives the bytes of a constant to the compiler (QUERN_REQUIRE_CONST_VALUES); the caller keeps them.
  void set_data(std::uint32_t value, std::span<const std::byte> bytes);

 private:
  std::uint32_t add(const ValueSpec& spec, bool ranged);
  std::uint32_t add_count();

  const Case& case_;
  std::uint32_t count_id_ = QUERN_NONE;
  quern_symbol symbol_{};
  std::vector<quern_value> values_;
  std::vector<std::string> layouts_;
  std::vector<std::uint32_t> input_ids_, output_ids_, node_inputs_, node_outputs_;
  std::vector<quern_attribute> attributes_;
  quern_node node_{};
  quern_graph graph_{};
};

}  // namespace quern::conformance
