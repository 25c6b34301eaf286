#include "scale_grid.hpp"

namespace quern::directory {

using safetensors::Dtype;

ScaleGrid scale_grid(const ModuleContext& context, const StoredTensor& scales, std::uint64_t rows, std::uint64_t columns) {
  const std::vector<std::uint64_t>& shape = scales.info.shape;
  context.check(scales, shape, {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e8m0});
  const std::uint64_t first = shape.empty() ? 1 : shape[0], second = shape.size() < 2 ? 1 : shape[1];
  if (shape.size() <= 2) {
    if (first == 1 && second == 1) return {rows, columns, 1};
    if (first == rows && second != 0 && columns % second == 0) return {1, columns / second, second};
    const std::uint64_t block_rows = context.quantisation.block_rows, block_columns = context.quantisation.block_columns;
    const auto parts = [](std::uint64_t size, std::uint64_t part) { return (size + part - 1) / part; };
    if (block_rows != 0 && first == parts(rows, block_rows) && second == parts(columns, block_columns))
      return {block_rows, block_columns, second};
  }
  throw context.refused(QUERN_BAD_MODEL, scales,
                        concat("has ", first, " x ", second, " scales, which do not fit the ", rows, " x ", columns, " weights"));
}

}  // namespace quern::directory
