// The probe's proof on a device: a strided copy, whose result is known in advance.
#include "backend.hpp"
#include "ops/copy.hpp"
#include "run_once.hpp"

namespace quern::vulkan {

std::string self_test(Gpu& gpu) {
  constexpr std::int64_t rows = 37, columns = 19;
  std::vector<std::uint32_t> x(rows * columns), y(rows * columns, 0xffffffffu);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint32_t>(i * 2654435761u);
  Memory from = gpu.take(x.size() * 4, "the self-test"), to = gpu.take(y.size() * 4, "the self-test");
  gpu.write(from, 0, x.data(), x.size() * 4);
  gpu.write(to, 0, y.data(), y.size() * 4);
  Tensor source, target;
  source.dtype = target.dtype = QUERN_I32;
  source.rank = target.rank = 2;
  source.data = from.address();
  target.data = to.address();
  source.dims[0] = target.dims[0] = columns;
  source.dims[1] = target.dims[1] = rows;
  source.strides[0] = 4;  // a transpose
  source.strides[1] = columns * 4;
  target.strides[0] = rows * 4;
  target.strides[1] = 4;
  run_once(gpu, [&](Launcher& launcher) { copy_views(source, target, {}, launcher); });
  gpu.read(y.data(), to, 0, y.size() * 4);
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      if (y[c * rows + r] != x[r * columns + c])
        return concat("element ", c * rows + r, " of a transposed copy is ", y[c * rows + r], " and should be ", x[r * columns + c]);
  return {};
}

}  // namespace quern::vulkan
