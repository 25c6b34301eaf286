// What the host passes to experts_kquants.cu.
#pragma once
#include "experts.hpp"
#include "mixed.hpp"
#include "operand.hpp"

namespace quern::cuda {

/// The weighted sum over a token's experts: y = residual + sum of weight * x.
struct ExpertSum {
  Address x;            // f32 [t][used][n]
  Operand weight;       // f32 [t, used]: stride of t, and step
  Address residual, y;  // f32 [t][n]; residual or 0
};

/// Pairs come in tiles of `columns` at most, all of one expert: of lists, or (listed 0) each pair is one. Each tile has an operand (operand.cuh) of
/// its own, of `columns` columns.
struct ExpertTilesParams {
  ExpertParams of;
  int listed;
  Blocks w, w2;  // of expert 0; w2: of up, under glu
  Address x;     // operands of k elements; 0 (not listed): each block makes its pair's of of.a
  int scaled;    // operands of x are of rows times powers of two, whose inverses they have
  // As in MixedParams, of each tile:
  int glu;
  Address glu_y;  // operands of n elements
  float alpha, glu_scale;
  int half, activation;
  int tiles, ways, span, columns, ring;
  int resident;  // 1: a block keeps its whole operand, and its warps take one tile of outputs after another; tiles to span are not read
  // Not listed, 0: no sum. u32 [tokens][gridDim.x], zero before and after: the last block of a token's pairs sums their outputs.
  Address counters;
  ExpertSum sum;  // of what is stored at of.y
};
/// Bytes of an operand that a block keeps, before the barrier and the rings of weights.
constexpr long long resident_bytes(long long k, int columns) { return k / 256 * columns * operand_pitch; }

struct ExpertSumParams {
  ExpertParams of;  // n, tokens, used, id
  ExpertSum sum;
};

}  // namespace quern::cuda
