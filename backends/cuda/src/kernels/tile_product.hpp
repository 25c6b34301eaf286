// What host and kernels of products of operands that lie anywhere agree on (tile_product.cuh).
#pragma once

namespace quern::cuda {

constexpr int product_tile = 64;  // rows and outputs of a block

}  // namespace quern::cuda
