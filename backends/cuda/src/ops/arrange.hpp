// Copies and casts between views, as copy, concat, pad, cast and attention launch them.
#pragma once

#include "../kernels/elementwise.hpp"
#include "../op.hpp"
#include "../orders.hpp"

namespace quern::cuda {

/// Empty, or why a block format cannot be copied: the blocks of its rows must lie behind each other.
std::string check_units(const Tensor& tensor);
/// A tensor of a block format as one of numbers of two bytes; others as they are.
Tensor in_units(const Tensor& tensor);
/// The same bytes under other strides; shapes and dtypes are equal.
void launch_copy(const Tensor& from, const Tensor& to, const Live& live, Launcher& launcher);
/// Elements begin to begin + n of dimension `axis`.
Tensor part_of(const Tensor& t, std::uint32_t axis, std::int64_t begin, std::int64_t n);
/// All rows of a matrix of any dtype in bf16, one behind another. Columns that are in an order are put where they lie without it; rows then have up to
/// most_ordered elements.
void launch_unpack(const Tensor& matrix, const Order& order, Address to, Launcher& launcher);
constexpr std::int64_t most_ordered = 32768;
void launch_fill(const Tensor& to, float value, Launcher& launcher);
/// Numbers of one shape, each rounded to the other's dtype.
void launch_cast(const Tensor& x, const Tensor& y, Launcher& launcher);

}  // namespace quern::cuda
