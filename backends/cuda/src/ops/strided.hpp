// Operands for kernels that take any strides: a walk over the dims that several tensors share.
#pragma once

#include "../kernels/strided.hpp"
#include "../op.hpp"

namespace quern::cuda {

struct Walked {
  const Tensor& tensor;
  Operand& operand;
};

/// The walk over the elements of `shape`, and each tensor's operand in it. A tensor aligns at the last dimension; where it has a
/// dimension of 1, or none, it repeats. An absent tensor gives an operand without data.
Shape walk_elements(const Tensor& shape, std::initializer_list<Walked> operands);
/// The same in steps of eight elements where every operand has them side by side at a multiple of 16 bytes: kernels take them with load_step().
Shape walk_steps(const Tensor& shape, std::initializer_list<Walked> operands);
/// The same over rows: all dims but the last.
Shape walk_rows(const Tensor& shape, std::initializer_list<Walked> operands);

/// What an operand has of a tensor before any dimension is walked.
Operand operand_of(const Tensor& tensor) noexcept;
/// A tensor whose rows the kernel finds by itself: the first stride is that between them.
Operand rows_of(const Tensor& tensor) noexcept;
/// Appends a dimension of n elements to a walk over `operands`, each of which has a stride in it, inside of those that it has.
void add_dimension(Shape& shape, std::int64_t n, std::span<Operand* const> operands, std::span<const std::int64_t> strides);
/// A walk without dimensions; after the last of them, finish() gives it at least one.
constexpr Shape empty_walk{1, 0, {}, 0};
void finish(Shape& shape);

/// The predicate of a call as kernels ask it.
Live live_of(const Call& call) noexcept;

}  // namespace quern::cuda
