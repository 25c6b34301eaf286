// Rows of f32 numbers into the block formats, by weighted least squares, and back.
//
// All of it follows from the descriptors in quern_formats.h. A row is encoded block by block, and nothing of one block goes into another.
// So the bytes depend on neither threads nor pieces, and they are the same on every processor.
#pragma once

#include "quern/graph/error.hpp"
#include "quern/quern_dtypes.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace quern::quantize {

/// Elements of a block: 1 for f32, f16 and bf16, 0 for a type that is neither these nor a block format.
std::uint64_t block_elements(quern_dtype dtype);
/// Bytes of so many elements, which are whole blocks.
std::uint64_t encoded_bytes(quern_dtype dtype, std::uint64_t elements);

/// Rows of weights.size() elements each into f32, f16, bf16 or a block format that GGUF files have. `weights` says how much an error in each column counts: finite
/// and not negative. Where those of a group are all 0 its columns count the same. No block has a larger weighted error than rounding with
/// the scale of its largest element. Throws Error(QUERN_INVALID_ARGUMENT) for sizes that are not whole blocks and rows, and for a number
/// that is not finite or that the type cannot hold.
void encode_rows(quern_dtype dtype, std::span<const float> rows, std::span<const float> weights, std::span<std::byte> out);

/// The same numbers as the graph's cast gives. Throws Error(QUERN_INVALID_ARGUMENT) for sizes that do not match.
void decode(quern_dtype dtype, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace quern::quantize
