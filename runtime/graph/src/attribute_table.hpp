// Names and types of the attribute keys of quern_ops.h, one row a key. A test holds this table and the header equal.
#pragma once

#include "quern/quern_graph.h"
#include "quern/quern_ops.h"

#include <cstdint>
#include <string_view>

namespace quern::graph {

struct AttributeKey {
  std::string_view name;
  std::uint32_t key;
  std::uint32_t type;
};

inline constexpr AttributeKey attribute_keys[] = {

};

}  // namespace quern::graph
