// Weights in planes (shaders/planes.glsl), which the SDK plans: who reads them so here, and packing them on the device.
#pragma once

#include "gpu.hpp"
#include "op.hpp"

#include <array>

namespace quern::vulkan {

/// Packed are constant matrices that matmul reads as weights with int8 activations, or with f16 ones; get_rows reads them too.
const sdk::PlanePacking& plane_packing() noexcept;
/// Whether kernels read a format in planes; other block formats take the kernels that decode their bytes.
bool has_planes(quern_dtype dtype) noexcept;
/// Where the planes of a packed matrix begin: scales and minima, codes, high bits, scales of sub-blocks. Zeros for a format without planes.
std::array<std::uint64_t, 4> plane_offsets(quern_dtype dtype, std::int64_t rows, std::int64_t k);

/// Packs a canonical matrix at address `from` into `target`. Both are as large as the layout is.
void pack_weight(const sdk::PlaneLayout& layout, std::uint64_t from, Memory& target, std::uint64_t offset, Gpu& gpu);

}  // namespace quern::vulkan
