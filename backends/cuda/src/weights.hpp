// Weights in planes, which the SDK plans: who reads them so here, and packing them on the device.
#pragma once

#include "gpu.hpp"
#include "tensor.hpp"

namespace quern::cuda {

/// Packed are constant matrices that only matmul (as weights) and get_rows read.
const sdk::PlanePacking& plane_packing() noexcept;

/// Packs a canonical matrix, both in device memory and as large as the layout is.
void pack_weight(const sdk::PlaneLayout& layout, Address from, Address to, Gpu& gpu);

}  // namespace quern::cuda
