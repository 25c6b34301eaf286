// What the host passes to mixed.cu.
#pragma once
#include "params.hpp"

namespace quern::cuda {

struct MixedPart {
  Blocks w;
  Address y;     // f32 [t], rows of `row`; not under glu
  Address bias;  // f32 [rows] or 0
  int rows, row;
};
/// y = alpha W x for up to 32 rows of f16 activations. Rows of parts stand one after another, in whole tiles of 16 but the last.
struct MixedParams {
  MixedPart part[3];
  int parts, k, t;
  Address x;         // f16 [t][k]
  float alpha;
  Address residual;  // f32, as y of part 0, or 0
  int glu;           // 1: part 0 is gate, part 1 up; glu_y = glu_scale * silu(gate) * up, f16 [t][rows]
  Address glu_y;
  float glu_scale;
  int tiles;         // of a block: 16 rows each
  int ways;          // warps that share a tile
  int span;          // blocks of 256 that a warp takes of a chunk of activations
  int pitch, means_pitch;  // bytes from one row of a chunk to the next
};

}  // namespace quern::cuda
