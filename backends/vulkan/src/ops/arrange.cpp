// See arrange.hpp.
#include "arrange.hpp"
#include "elementwise.hpp"

namespace quern::vulkan {

Tensor part_of(const Tensor& y, const Tensor& x, std::int64_t axis, std::int64_t first) {
  Tensor part = y;
  part.dims[axis] = x.dims[axis];
  if (axis + 1 == std::int64_t{y.rank}) first /= static_cast<std::int64_t>(sdk::element_size(y.dtype).elements);
  part.data += static_cast<std::uint64_t>(first * y.strides[axis]);
  return part;
}

std::string check_repeats(const Tensor& large) {
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

}  // namespace quern::vulkan
