// Parameters of products whose operands lie anywhere.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

/// y = alpha a b^T + bias + beta c in batches: strides of the walk are those of the batches.
struct MatmulAnyParams {
  Shape batches;
  Operand a, b, c, y;
  long long a_row, b_row, c_row, y_row;  // bytes; steps along k (a, b) and n (c, y) are the operands'
  Blocks pieces;                         // of b, where it is of a block format: see tile_product.cuh
  int b_blocks, b_planes, b_turned;      // turned: its blocks lie along n
  Address bias;
  long long m, n, k;
  float alpha, beta;
};

}  // namespace quern::cuda
