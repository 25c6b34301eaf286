// Parameters of products with the weights of chosen experts, and of their gradients. A pair is a token with one of its experts.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

constexpr int expert_pairs = 64;     // of a tile, all of one expert, of experts.cu and experts_mma.cu
constexpr int expert_columns = 128;  // outputs of a block of experts_mma.cu; of experts.cu a product_tile
constexpr int expert_warps = 8;      // of few pairs: of a block
constexpr int expert_outputs = 2;    // of few pairs: of a warp
constexpr int expert_sixteen = 20;   // of few pairs: floats that 16 elements of a row take in shared memory, so that banks differ
/// Floats that a row of k elements takes there.
constexpr long long expert_staged_floats(long long k) { return (k + 15) / 16 * expert_sixteen; }

struct ExpertParams {
  Operand a;       // [t, used | 1, k]: strides of t and u (0 where a token has one row)
  Operand b;       // [experts, n, k]: strides of e and n
  Operand y;       // [t, used, n]: of the gradient dy
  Operand da, db;  // of the gradient
  Operand id;      // [t, used]: stride of t, and step
  Blocks pieces;   // of b, where it is of a block format: from the start of a row, or of planes
  int b_blocks;
  long long row_sixteens;  // of b in planes: sixteens of a row, whose strides are 0; else 0
  long long tokens, used, experts, n, k;
  Address order;   // i32 [pairs]: pairs by expert, in their order
  Address start;   // i32 [experts + 1]: where an expert's pairs start in it
  Address tiles;   // i32 [experts + 1]: how many tiles of tile_pairs lie before an expert's
  Address parts;   // f32 [pairs][k]: da of pairs, where a token has one row of a
  int tile_pairs;  // pairs of a tile
  int accumulate, shared_a;
  int staged;  // of few pairs: their rows of a fit into shared memory
  Live live;
  Address faults;
};

/// Of few pairs, what follows their products: a GLU of gate and up, or the weighted sum over a token's experts.
struct ExpertEndParams {
  ExpertParams of;  // of gate or of down
  Operand up;       // weights, as of.b
  Blocks up_pieces;
  long long up_row_sixteens;
  int up_blocks, activation;  // activation: of gate
  int warps;                  // of a sum: that share the experts of an output; 1, 2, 4 or 8
  Operand weight;             // f32 [t, used]: stride of t, and step
  Address residual, y;        // f32 [t][n]; residual or 0
};

}  // namespace quern::cuda
