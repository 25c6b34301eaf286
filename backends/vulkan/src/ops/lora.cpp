// Adapters: lora_matmul, its gradient, lora_merge.
#include "tables.hpp"
#include "../shaders/modes.h"

#include <algorithm>

namespace quern::vulkan {
namespace {

std::string check_adapters(const Call& call) {
  const Tensor& pool = call.input(1);
  if (pool.elements() >= std::int64_t{1} << 31) return concat(describe(pool), "; fewer than 2^31 elements are taken");
  return first_of({sdk::check_packed_rows(pool), check_contiguous(call.input(2))});
}

/// An adapter lies inside the pool, so that none has a higher rank.
std::int64_t most_rank(const Call& call, std::int64_t n) {
  const std::int64_t widest = std::max({std::int64_t{1}, call.input(0).dims[1], n});
  return std::max<std::int64_t>(1, call.input(1).dims[0] / widest);
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
LoraParams params_of(const Call& call, std::int64_t n, Launcher& launcher) {
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
void launch(const LoraParams& p, std::int64_t items, std::int32_t op, Launcher& launcher) {
  launcher.launch("lora", launcher.item_threads(), launcher.spread(items), p, {op});
}
std::int64_t low_items(const LoraParams& p) { return std::int64_t{p.rows} * p.most_rank; }

std::string refuse_lora(const Call& call) { return first_of({check_adapters(call), check_low(call, call.output(0).dims[1])}); }
std::uint64_t scratch_matmul(const Call& call) { return low_bytes(call, call.output(0).dims[1]); }
void emit_lora(const Call& call, Launcher& launcher) {
  const Tensor &base = call.input(4), &y = call.output(0);
  LoraParams p = params_of(call, y.dims[1], launcher);
  if (base.present()) p.base = lora_view(base);
  p.out_ = lora_view(y);
  launch(p, low_items(p), lora_h, launcher);
  launcher.barrier();
  launch(p, y.elements(), lora_y, launcher);
}

std::string refuse_lora_backward(const Call& call) { return first_of({check_adapters(call), check_low(call, call.input(4).dims[1])}); }
std::uint64_t scratch_lora_backward(const Call& call) { return 2 * low_bytes(call, call.input(4).dims[1]); }
void emit_lora_backward(const Call& call, Launcher& launcher) {
  const Tensor &dy = call.input(4), &dx = call.output(0), &dpool = call.output(1);
  LoraParams p = params_of(call, dy.dims[1], launcher);
  p.y = lora_view(dy);
  p.accumulate = call.flag(QUERN_KEY_ACCUMULATE) ? 1 : 0;
  launch(p, low_items(p), lora_h, launcher);
  launch(p, low_items(p), lora_g, launcher);
  launcher.barrier();
  p.out_ = lora_view(dx);
  launch(p, dx.elements(), lora_dx, launcher);
  p.out_ = lora_view(dpool);
  launch(p, dpool.elements(), lora_pool, launcher);
}

std::string refuse_merge(const Call& call) {
  const Tensor& w = call.input(0);
  return w.elements() >= std::int64_t{1} << 31 ? concat(describe(w), "; fewer than 2^31 elements are taken") : "";
}
void emit_merge(const Call& call, Launcher& launcher) {
  const Tensor &w = call.input(0), &a = call.input(1);
  LoraParams p{};
  p.x = lora_view(w);
  p.base = lora_view(a);
  p.y = lora_view(call.input(2));
  p.out_ = lora_view(call.output(0));
  p.rows = static_cast<uint>(w.dims[0]);
  p.k = static_cast<uint>(w.dims[1]);
  p.most_rank = static_cast<uint>(a.dims[0]);
  p.alpha = call.number(QUERN_KEY_ALPHA);
  launch(p, w.elements(), lora_merged, launcher);
}

constexpr Op lora_table[] = {
    offer(QUERN_OP_LORA_MATMUL, "lora_matmul.vulkan", refuse_lora, emit_lora, scratch_matmul),
    offer(QUERN_OP_LORA_MATMUL_BACKWARD, "lora_matmul_backward.vulkan", refuse_lora_backward, emit_lora_backward, scratch_lora_backward,
          true),
    offer(QUERN_OP_LORA_MERGE, "lora_merge.vulkan", refuse_merge, emit_merge),
};

}  // namespace

const std::span<const Op> lora_ops = lora_table;

}  // namespace quern::vulkan
