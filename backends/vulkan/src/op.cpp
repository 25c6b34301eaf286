// See op.hpp.
#include "op.hpp"

#include "ops/tables.hpp"
#include "weights.hpp"

namespace quern::vulkan {

const Op* find_op(std::uint32_t op) noexcept {
  static constexpr const Op* rows[] = {
#define QUERN_VULKAN_OP(name) &name##_op,
#include "vulkan_op_tables.def"
#undef QUERN_VULKAN_OP
  };
  for (const Op* row : rows)
    if (row->op == op) return row;
  return nullptr;
}

std::uint64_t DeviceOffers::layout_bytes(std::string_view key, const quern_value& value) const {
  return plane_packing().layout_bytes(key, value);
}

std::string DeviceOffers::refuse(const sdk::OpOffer& offer, const Call& call) const {
  std::string text = Offers::refuse(offer, call);
  const Op& row = static_cast<const Op&>(offer);  // find() gives no other
  if (!text.empty()) return text;
  if (const std::uint64_t bytes = row.shared == nullptr ? 0 : row.shared(call); bytes > card_.shared_limit)
    return concat("a kernel needs ", bytes, " bytes of shared memory here; ", card_.name, " has ", card_.shared_limit);
  if (row.turns == nullptr || (card_.quirks & short_loops) == 0) return text;
  const std::int64_t turns = row.turns(call);
  if (turns <= most_loop_turns) return text;
  return concat("a kernel's loops take up to ", turns, " turns here; ", card_.name, " ends them after 65535");
}

}  // namespace quern::vulkan
