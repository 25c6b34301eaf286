// What ops.def says of an op, parsed: name, arity, attributes with defaults.
#pragma once

#include "kernel.hpp"

#include "quern/quern_graph.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cpu {

struct OpSignature {
  std::uint32_t id;
  std::string_view name, group, inputs, outputs, attributes;
};

/// The row of ops.def, or null for an unknown id.
const OpSignature* find_op(std::uint32_t id) noexcept;

/// Checks how many inputs and outputs a node has and which are absent ("present" in node order). A "no" says what the op takes.
Verdict check_arity(const OpSignature& op, const std::vector<bool>& inputs_present, const std::vector<bool>& outputs_present);

/// All attributes of the op with their values: sent ones, then defaults. Returns a "no" for a key that the op does not have,
/// a key sent twice, a wrong type, or a missing required one.
Verdict resolve_attributes(const OpSignature& op, std::span<const quern_attribute> sent, std::vector<AttributeValue>& out);

}  // namespace quern::cpu
