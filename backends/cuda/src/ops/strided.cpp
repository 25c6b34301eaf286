// See strided.hpp.
#include "strided.hpp"

#include <algorithm>
#include <array>

namespace quern::cuda {
namespace {

/// Bytes between neighbours along dimension d of `shape`.
std::int64_t stride_along(const Tensor& tensor, const Tensor& shape, std::uint32_t d) {
  const std::uint32_t missing = shape.rank - tensor.rank;
  return !tensor.present() || d < missing || tensor.dims[d - missing] == 1 ? 0 : tensor.strides[d - missing];
}

Shape walk(const Tensor& shape, std::uint32_t rank, std::initializer_list<Walked> walked) {
  constexpr std::size_t most = 8;
  std::array<Operand*, most> operands{};
  std::array<std::int64_t, most> strides{};
  std::size_t count = 0;
  for (const Walked& w : walked) {
    w.operand = operand_of(w.tensor);
    operands[count++] = &w.operand;
  }
  Shape result = empty_walk;
  for (std::uint32_t d = 0; d < rank; ++d) {
    std::size_t i = 0;
    for (const Walked& w : walked) strides[i++] = stride_along(w.tensor, shape, d);
    add_dimension(result, shape.dims[d], {operands.data(), count}, {strides.data(), count});
  }
  finish(result);
  return result;
}

}  // namespace

Operand operand_of(const Tensor& tensor) noexcept {
  Operand operand{};
  if (!tensor.present()) return operand;
  operand.data = tensor.data;
  operand.dtype = static_cast<int>(tensor.dtype);
  if (tensor.rank > 0 && tensor.last() != 1) operand.step = tensor.strides[tensor.rank - 1];
  return operand;
}

Operand rows_of(const Tensor& tensor) noexcept {
  Operand operand = operand_of(tensor);
  if (tensor.present() && tensor.rank > 0) operand.strides[0] = tensor.strides[0];
  return operand;
}

void add_dimension(Shape& shape, std::int64_t n, std::span<Operand* const> operands, std::span<const std::int64_t> strides) {
  shape.count *= n;
  if (n == 1) return;
  bool joins = shape.rank > 0;  // with the dimension before it
  for (std::size_t i = 0; joins && i < operands.size(); ++i) joins = operands[i]->strides[shape.rank - 1] == strides[i] * n;
  if (!joins) shape.dims[shape.rank++] = 1;
  shape.dims[shape.rank - 1] *= n;
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i]->strides[shape.rank - 1] = strides[i];
}

void finish(Shape& shape) {
  if (shape.rank == 0) shape.dims[shape.rank++] = 1;
}

Shape walk_elements(const Tensor& shape, std::initializer_list<Walked> operands) { return walk(shape, shape.rank, operands); }

Shape walk_steps(const Tensor& shape, std::initializer_list<Walked> operands) {
  Shape steps = walk_elements(shape, operands);
  const int last = steps.rank - 1;
  constexpr std::int64_t alignment = 16;
  const auto is_wide = [&](const Walked& w) {
    bool wide = w.operand.data % alignment == 0 &&
                w.operand.strides[last] == static_cast<std::int64_t>(sdk::element_size(w.tensor.dtype).bytes);
    for (int d = 0; d < last; ++d) wide = wide && w.operand.strides[d] % alignment == 0;
    return wide || w.operand.data == 0;
  };
  if (steps.dims[last] % wide_step != 0 || !std::ranges::all_of(operands, is_wide)) return steps;
  steps.wide = 1;
  steps.count /= wide_step;
  steps.dims[last] /= wide_step;
  for (const Walked& w : operands) w.operand.strides[last] *= wide_step;
  return steps;
}

Shape walk_rows(const Tensor& shape, std::initializer_list<Walked> operands) {
  return walk(shape, shape.rank == 0 ? 0 : shape.rank - 1, operands);
}

Live live_of(const Call& call) noexcept { return call.predicate.present() ? Live{call.predicate.data, call.predicate.elements()} : Live{}; }

}  // namespace quern::cuda
