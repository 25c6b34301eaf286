// See op.hpp.
#include "op.hpp"

#include "ops/tables.hpp"
#include "weights.hpp"

namespace quern::vulkan {

const Op* find_op(std::uint32_t op) noexcept {
  static const std::span<const Op> tables[] = {
#define QUERN_VULKAN_OPS(family) family##_ops,
#include "ops/tables.def"
#undef QUERN_VULKAN_OPS
  };
  for (const std::span<const Op> table : tables)
    for (const Op& row : table)
      if (row.op == op) return &row;
  return nullptr;
}

std::uint64_t DeviceOffers::layout_bytes(std::string_view key, const quern_value& value) const {
  return plane_packing().layout_bytes(key, value);
}

}  // namespace quern::vulkan
