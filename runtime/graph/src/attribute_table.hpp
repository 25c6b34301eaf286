// The attribute keys of keys.def as a table.
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
#define QUERN_KEY(id, NAME, name, type) {#name, id, QUERN_ATTR_##type},
#include "quern/keys.def"
#undef QUERN_KEY
};

}  // namespace quern::graph
