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

void launch_unpack(const Tensor& matrix, Address to, quern_dtype dtype, Launcher& launcher) {
  const UnpackParams p{blocks_of(matrix), to, static_cast<int>(dtype), matrix.dims[0], matrix.last(), 0, matrix.last()};
  launcher.launch(kernels::unpack_rows, launcher.spread(matrix.elements() / 16), 256, p);
}

}  // namespace quern::cuda
