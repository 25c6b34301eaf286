// Products by tiles in shared memory (shaders/matmul_tiles.comp): any strides, transposes and formats, any number of rows.
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

constexpr std::uint32_t most_leading = 4;  // dimensions before the matrices

/// Parameters of a product whose second factor is `b`, which may be another tensor than the call's.
MatmulParams product_params(const Call& call, const Tensor& b);

/// Whether blocks of b lie along n.
bool has_turned_blocks(const Call& call);

/// Outputs first .. first + count - 1 of b, which is of blocks, in f32: rows, or columns where b is transposed.
Tensor decode_outputs(const Call& call, std::int64_t first, std::int64_t count, std::uint64_t memory, Launcher& launcher);

/// Bytes of scratch, and turns of a thread's loops, at the call's dims.
std::uint64_t tiles_scratch(const Call& call);
std::int64_t tiles_turns(const Call& call);
void launch_tiles(const Call& call, Launcher& launcher);

}  // namespace quern::vulkan
