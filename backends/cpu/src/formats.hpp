// Sizes of the block formats, from quern_formats.h, and their codes. A format is decoded and encoded by
// formats/<format>.cpp.
#pragma once

#include "quern/quern_formats.h"

#include <cstddef>
#include <cstdint>

namespace quern::cpu {

/// Of a block, for kernels of one format. For no block format 0, by which no division compiles.
template <quern_dtype Format>
constexpr std::int64_t block_elements_of = [] {
  for (const quern_format& format : quern_formats)
    if (format.id == Format) return format.block_elements;
  return 0u;
}();
template <quern_dtype Format>
constexpr std::int64_t block_bytes_of = [] {
  for (const quern_format& format : quern_formats)
    if (format.id == Format) return format.block_bytes;
  return 0u;
}();

/// out[0..count) = the first `count` elements of the blocks at `blocks`. Products of scales and codes are exact in f32, so an
/// element is rounded at most once, and every instruction set gives the same bits.
void decode_blocks(quern_dtype dtype, const std::byte* blocks, std::int64_t count, float* out) noexcept;

/// Elements 32 part .. 32 part + 31 of one block.
void decode_part(quern_dtype dtype, const std::byte* block, int part, float* out) noexcept;

/// Encodes count elements, a multiple of the block's, by the rule in the format's file.
void encode_blocks(quern_dtype dtype, const float* in, std::int64_t count, std::byte* blocks) noexcept;

}  // namespace quern::cpu
