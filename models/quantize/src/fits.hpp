// Blocks that hold numbers well: by rounding, and by weighted least squares over candidates.
#pragma once

#include "block_layout.hpp"

namespace quern::quantize {

/// Each group by its largest element, as the graph's cast encodes.
void round_block(const BlockLayout& layout, const float* x, Block& block);

/// The least sum of weight * (x - value)^2 that the search finds. Of each group some weight is above 0, and none of the block above 1.
void fit_block(const BlockLayout& layout, const float* x, const float* weights, Block& block);

/// Of the numbers as a reader sees them.
double error_of(const BlockLayout& layout, const Block& block, const float* x, const float* weights);

}  // namespace quern::quantize
