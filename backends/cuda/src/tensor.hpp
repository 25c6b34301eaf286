// Tensors as kernels take them, and how the blocks of a matrix lie.
#pragma once

#include "error.hpp"
#include "kernels/params.hpp"

#include "quern/quern_device_plugin.hpp"

namespace quern::cuda {

using sdk::describe;
using sdk::is_block;
using sdk::is_contiguous;
using sdk::is_float;
using sdk::Tensor;

/// The fields of a block, as Blocks in params.hpp has them; floats are blocks of 16 with one field.
sdk::BlockFields fields_of(quern_dtype dtype) noexcept;

/// Whether kernels multiply weights of a format by int8 activations and read it in planes; every other block format takes the kernels that decode.
bool is_fast_format(quern_dtype dtype) noexcept;

/// Whether kernels/kquants_formats.cuh has the block format of these weights for all products, and reads them as they lie.
bool is_half_format(const Tensor& weights) noexcept;
/// Whether it has it for products alone that are of no experts; in planes.
bool is_group_format(quern_dtype dtype) noexcept;
bool is_group_format(const Tensor& weights) noexcept;

View view_of(const Tensor& tensor) noexcept;
/// A matrix of any dtype whose rows are k elements long, as kernels decode it. k is a multiple of 16.
Blocks blocks_of(const Tensor& tensor) noexcept;
/// Its rows from `first` on, a multiple of 16.
Blocks blocks_of_rows(const Tensor& matrix, std::int64_t first) noexcept;

}  // namespace quern::cuda
