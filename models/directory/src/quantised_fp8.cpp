// Numbers of eight bits with a scale for the tensor, a row or a block. It multiplies, whatever its name says.
#include "block_packing.hpp"
#include "scale_grid.hpp"
#include "stored_numbers.hpp"

#include <utility>

namespace quern::directory {

using safetensors::Dtype;

QuantisedWeight fp8_weight(const ModuleContext& context, const QuantisedModule& module) {
  constexpr std::uint64_t block = 128;
  const StoredTensor& numbers = context.require(module, "weight");
  const StoredTensor* const inverse = module.find("weight_scale_inv");
  const StoredTensor& scales = inverse != nullptr ? *inverse : context.require(module, "weight_scale");
  if (numbers.info.shape.size() != 2 || numbers.info.elements() == 0) throw context.refused(QUERN_BAD_MODEL, numbers, "is not a matrix");
  const std::uint64_t rows = numbers.info.shape[0], columns = numbers.info.shape[1];
  context.check(numbers, {rows, columns}, {Dtype::f8_e4m3});
  const ScaleGrid grid = scale_grid(context, scales, rows, columns);
  if (columns % block != 0 || (grid.column_step % block != 0 && grid.column_step != columns))
    throw context.refused(QUERN_UNSUPPORTED, numbers,
                          concat("has ", columns, " columns with a scale for ", grid.column_step, "; multiples of ", block, " are read"));
  QuantisedWeight made{&numbers, {&scales}, rows, columns, QUERN_F8_128, {}, {}};
  made.change = [=, scale_type = scales.info.dtype, where = context.where(scales)](gguf::LyingPieces lying, const MadeRows& to) {
    const StoredNumbers scale(scale_type, lying[1]);
    Codes blocks{QUERN_F8_128, rows, columns, block, {}, {}, {}, {}};
    blocks.lying = lying[0];
    blocks.scales = by_groups(block, [=](std::uint64_t row, std::uint64_t g) { return scale[grid.at(row, g * block)]; });
    return packed_blocks(std::move(blocks), where, to);
  };
  return made;
}

}  // namespace quern::directory
