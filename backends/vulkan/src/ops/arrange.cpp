// concat, pad, repeat and sum_to.
#include "copy.hpp"
#include "elementwise.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

/// The part of y from `first` on along an axis that is as large as x.
Tensor part_of(const Tensor& y, const Tensor& x, std::int64_t axis, std::int64_t first) {
  Tensor part = y;
  part.dims[axis] = x.dims[axis];
  if (axis + 1 == std::int64_t{y.rank}) first /= static_cast<std::int64_t>(sdk::element_size(y.dtype).elements);
  part.data += static_cast<std::uint64_t>(first * y.strides[axis]);
  return part;
}

void emit_concat(const Call& call, Launcher& launcher) {
  const std::int64_t axis = call.integer(QUERN_KEY_AXIS);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < call.inputs.count; ++i) {
    const Tensor& x = call.input(i);
    copy_views(x, part_of(call.output(0), x, axis, first), {}, launcher);
    first += x.dims[axis];
  }
}

void emit_pad(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  fill_view(y, call.real(QUERN_KEY_VALUE), launcher);
  launcher.barrier();
  cast_view(x, part_of(y, x, call.integer(QUERN_KEY_AXIS), call.integer(QUERN_KEY_BEFORE)), launcher);
}

/// An index of 32 bits walks over both.
std::string refuse_repeats(const Tensor& large) {
  return large.elements() >= std::int64_t{1} << 30 ? concat(describe(large), "; fewer than 2^30 elements are taken") : "";
}
void launch_repeat(const Tensor& small, const Tensor& large, bool sums, Launcher& launcher) {
  RepeatParams p{};
  p.small.data = small.data;
  p.large.data = large.data;
  p.small.dtype = static_cast<int>(small.dtype);
  p.large.dtype = static_cast<int>(large.dtype);
  p.rank = static_cast<int>(large.rank);
  p.count = static_cast<uint>(small.elements());
  if (p.count == 0 || large.elements() == 0) {
    if (sums) fill_view(small, 0, launcher);
    return;
  }
  p.repeats = static_cast<uint>(large.elements() / small.elements());
  for (std::uint32_t d = 0; d < large.rank; ++d) {
    const std::int64_t at = std::int64_t{d} + small.rank - large.rank;
    p.small_dims[d] = at < 0 ? 1 : static_cast<uint>(small.dims[at]);
    p.small.stride[d] = at < 0 ? 0 : small.strides[at];
    p.large_dims[d] = static_cast<uint>(large.dims[d]);
    p.large.stride[d] = large.strides[d];
  }
  if (sums) launcher.launch("repeat", launcher.row_threads(p.repeats), launcher.rows(p.count), p, {1});
  else launcher.launch("repeat", launcher.item_threads(), launcher.spread(large.elements()), p, {0});
}

std::string refuse_repeat(const Call& call) { return refuse_repeats(call.output(0)); }
void emit_repeat(const Call& call, Launcher& launcher) { launch_repeat(call.input(0), call.output(0), false, launcher); }
std::string refuse_sum_to(const Call& call) { return refuse_repeats(call.input(0)); }
void emit_sum_to(const Call& call, Launcher& launcher) { launch_repeat(call.output(0), call.input(0), true, launcher); }

constexpr Op arrange_table[] = {
    offer(QUERN_OP_CONCAT, "concat.vulkan", nullptr, emit_concat),
    offer(QUERN_OP_PAD, "pad.vulkan", nullptr, emit_pad),
    offer(QUERN_OP_REPEAT, "repeat.vulkan", refuse_repeat, emit_repeat),
    offer(QUERN_OP_SUM_TO, "sum_to.vulkan", refuse_sum_to, emit_sum_to),
};

}  // namespace

const std::span<const Op> arrange_ops = arrange_table;

}  // namespace quern::vulkan
