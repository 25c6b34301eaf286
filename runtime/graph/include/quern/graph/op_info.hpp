// The rows of ops.def, parsed: what an op takes, gives and accepts.
//
// Read once, on first use; the same for the whole process. What a row means is in plugin-api/OPS.md.
#pragma once

#include "quern/graph/graph.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::graph {

/// A formal input or output of an op.
struct OpSlot {
  std::string name;       // "weight"
  bool optional = false;  // "weight?"
  bool variadic = false;  // "*x": one or more
};

/// A formal attribute. A given one that equals the default is not stored in the node.
struct OpAttribute {
  std::string name;          // "epsilon"
  std::uint32_t key = 0;     // QUERN_KEY_...
  std::uint32_t type = 0;    // QUERN_ATTR_...
  bool required = false;     // then there is no default
  std::int64_t integer = 0;  // the default, for QUERN_ATTR_I64
  double number = 0;         // the default, for QUERN_ATTR_F64
};

struct OpInfo {
  std::uint32_t id = 0;
  std::string name;   // "rms_norm"
  std::string group;  // "norm"
  std::vector<OpSlot> inputs;
  std::vector<OpSlot> outputs;
  std::vector<OpAttribute> attributes;
  std::string gradient;  // an op's name, "composite" or "-"

  const OpAttribute* attribute(std::uint32_t key) const noexcept;
};

/// All ops, in the order of ops.def.
const std::vector<OpInfo>& all_ops();
/// Null for an id that is not in ops.def.
const OpInfo* find_op(std::uint32_t id);
/// Null for a name that is not in ops.def.
const OpInfo* find_op(std::string_view name);

/// "epsilon"; "attribute 99" for an unknown key.
std::string attribute_name(std::uint32_t key);

/// The value of an attribute of a node: as stored, or the default of ops.def. `key` must be one of the op's, and of that type.
std::int64_t integer_attribute(const Node& node, std::uint32_t key);
double number_attribute(const Node& node, std::uint32_t key);

}  // namespace quern::graph
