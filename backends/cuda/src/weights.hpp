// Weights in planes, which the SDK plans: who reads them so here, and packing them on the device.
#pragma once

#include "lane.hpp"
#include "tensor.hpp"

namespace quern::cuda {

/// Packed are constant matrices that only matmul (as weights) and get_rows read.
const sdk::PlanePacking& plane_packing() noexcept;

/// Enqueues the packing of a canonical matrix, both in device memory and as large as the layout is.
void pack_weight(const sdk::PlaneLayout& layout, Address from, Address to, Lane& lane);

}  // namespace quern::cuda
