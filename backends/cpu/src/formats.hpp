// Facts of the block formats that the plugin needs everywhere: sizes, names, descriptor hashes. A format is decoded and encoded by
// formats/<format>.cpp.
#pragma once

#include "quern/quern_abi.h"

#include <cstddef>
#include <cstdint>

struct quern_format;

namespace quern::cpu {

/// The descriptor of quern_formats.h, or null for a dtype that is no block format.
const quern_format* find_format(quern_dtype dtype) noexcept;

/// out[0..count) = the first `count` elements of the blocks at `blocks`. Products of scales and codes are exact in f32, so an
/// element is rounded at most once, and every instruction set gives the same bits.
void decode_blocks(quern_dtype dtype, const std::byte* blocks, std::int64_t count, float* out) noexcept;

/// Elements 32 part .. 32 part + 31 of one block.
void decode_part(quern_dtype dtype, const std::byte* block, int part, float* out) noexcept;

/// Encodes count elements, a multiple of the block's, by the rule in the format's file.
void encode_blocks(quern_dtype dtype, const float* in, std::int64_t count, std::byte* blocks) noexcept;

}  // namespace quern::cpu
