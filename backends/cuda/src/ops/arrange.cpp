// See arrange.hpp. What copies and fills launch is in copy.cpp, cast.cpp and fill.cpp.
#include "arrange.hpp"

namespace quern::cuda {

Tensor part_of(const Tensor& t, std::uint32_t axis, std::int64_t begin, std::int64_t n) {
  Tensor part = t;
  const sdk::ElementSize size = sdk::element_size(t.dtype);
  const std::int64_t unit = axis + 1 == t.rank ? static_cast<std::int64_t>(size.elements) : 1;
  part.data += static_cast<Address>(begin / unit * t.strides[axis]);
  part.dims[axis] = n;
  return part;
}

void launch_unpack(const Tensor& matrix, const Order& order, Address to, Launcher& launcher) {
  if (order.key != 0) {
    const OrderedUnpackParams p{blocks_of(matrix), to, order.index, matrix.dims[0], static_cast<int>(matrix.last())};
    return launcher.launch(kernels::unpack_in_order, {p.rows, 1, 1}, 256, p, static_cast<unsigned>(p.k) * 2);
  }
  const UnpackParams p{blocks_of(matrix), to, QUERN_BF16, matrix.dims[0], matrix.last(), 0, matrix.last()};
  launcher.launch(kernels::unpack_rows, launcher.spread(matrix.elements() / 16), 256, p);
}

}  // namespace quern::cuda
