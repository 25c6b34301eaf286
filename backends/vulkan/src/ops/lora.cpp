// See lora.hpp.
#include "lora.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

/// An adapter lies inside the pool, so that none has a higher rank.
std::int64_t most_rank(const Call& call, std::int64_t n) {
  const std::int64_t widest = std::max({std::int64_t{1}, call.input(0).dims[1], n});
  return std::max<std::int64_t>(1, call.input(1).dims[0] / widest);
}

}  // namespace

std::string check_adapters(const Call& call) {
  const Tensor& pool = call.input(1);
  if (pool.elements() >= std::int64_t{1} << 31) return concat(describe(pool), "; fewer than 2^31 elements are taken");
  return first_of({sdk::check_packed_rows(pool), check_contiguous(call.input(2))});
}

std::uint64_t low_bytes(const Call& call, std::int64_t n) {
  return (static_cast<std::uint64_t>(call.input(0).dims[0] * most_rank(call, n)) * 4 + 255) / 256 * 256;
}
std::string check_low(const Call& call, std::int64_t n) {
  const std::int64_t rows = call.input(0).dims[0];
  const bool large = rows * most_rank(call, n) >= std::int64_t{1} << 31 || rows * std::max(call.input(0).dims[1], n) >= std::int64_t{1}
                                                                                                                            << 31;
  return large ? "rows times ranks, and elements of x and y, are fewer than 2^31" : "";
}

View lora_view(const Tensor& t) {
  View v{};
  v.data = t.data;
  v.dtype = static_cast<int>(t.dtype);
  std::copy_n(t.strides, 2, v.stride);
  return v;
}
LoraParams lora_params(const Call& call, std::int64_t n, Launcher& launcher) {
  const Tensor &x = call.input(0), &pool = call.input(1), &slot = call.input(3);
  LoraParams p{};
  p.x = lora_view(x);
  p.pool = pool.data;
  p.table = call.input(2).data;
  p.slot = slot.data;
  p.h = call.scratch;
  p.g = call.scratch + low_bytes(call, n);
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.rows = static_cast<uint>(x.dims[0]);
  p.k = static_cast<uint>(x.dims[1]);
  p.n = static_cast<uint>(n);
  p.pool_size = static_cast<uint>(pool.dims[0]);
  p.most_rank = static_cast<uint>(most_rank(call, n));
  p.slots = static_cast<int>(call.input(2).dims[0]);
  p.slot_step = static_cast<int>(slot.strides[0]);
  p.pool_dtype = static_cast<int>(pool.dtype);
  p.alpha = call.number(QUERN_KEY_ALPHA);
  return p;
}
void launch_lora(const LoraParams& p, std::int64_t items, std::int32_t op, Launcher& launcher) {
  launcher.launch("lora", launcher.item_threads(), launcher.spread(items), p, {op});
}
std::int64_t low_items(const LoraParams& p) { return std::int64_t{p.rows} * p.most_rank; }

}  // namespace quern::vulkan
