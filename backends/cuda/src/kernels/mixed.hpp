// What the host passes to mixed.cu.
#pragma once
#include "dtypes.hpp"
#include "params.hpp"

namespace quern::cuda {

/// Of a block: with up to 32 columns a warp has 168 registers for each thread, with more 255.
constexpr int mixed_most_warps(int columns) { return columns > 32 ? 8 : 12; }
/// Of a block of kquants_rows.cuh, two of which are on a multiprocessor where columns are below 32: with up to 8 columns a thread has 128 registers.
constexpr int kquants_most_warps(int columns) {
  return columns <= 8 ? 8 : columns < 32 ? mixed_most_warps(columns) / 2 : mixed_most_warps(columns);
}
constexpr int mixed_barrier_bytes = 128;  // barriers, and of a row's sums of squares
/// Of a warp's ring, for weights with codes of eight bits or of fewer: two stages at least (kquants_formats.cuh).
constexpr int kquants_ring_bytes(bool wide) { return wide ? 8704 : 6912; }
/// Of warpgroup_rows.cuh: threads of a block, four warpgroups that multiply and one that brings activations, and registers of a thread of either: of
/// the 96 that a thread starts with, in all as many.
constexpr int warpgroup_threads = 640, warpgroup_registers = 112, bringing_registers = 24;
/// Stages of the activations that there is room for, of 256 elements of 64 columns.
constexpr int warpgroup_stages(bool wide) { return wide ? 2 : 3; }
constexpr int warpgroup_stage_bytes = 32768;
constexpr int warpgroup_barrier_bytes = 64;
constexpr int kquants_tail_bytes = 4 * 128;  // of a warp's unit of the residual

struct MixedPart {
  Blocks w;
  Address y;     // f32 [t], rows of `row`; not under glu
  Address bias;  // f32 [rows] or 0
  int rows, row;
};
/// y = alpha W x for up to 64 rows of f16 (weights of bf16: bf16) activations. Rows of parts stand one after another, in whole tiles of 16 but the last.
struct MixedParams {
  MixedPart part[3];
  int parts, k, t;
  Address x;  // 16 bits, see operand.cuh; of `columns`
  // Of one row, in place of x: f32 [k], 0: none. With a weight (f32 [k]) it is normalised and times weight + offset.
  Address raw, raw_weight;
  float raw_offset, epsilon;
  float alpha;
  Address residual;  // f32, as y of part 0, or 0
  int glu;           // 1: part 0 is gate, part 1 up; glu_y = glu_scale * activation(gate) * up, an operand of `columns`
  Address glu_y;
  float glu_scale;
  int half;            // glu_y is f16, else bf16
  int settles;         // 1: the next kernel starts only when all before this one are done
  int tiles;           // of a block: 16 rows each
  int ways;            // warps that share a tile; of warpgroups: blocks that do
  int span;            // blocks of 256 that a warp takes of a chunk of activations; of warpgroups: stages of these
  int columns;         // of the operands: 1, 8, 16, 32 or 64
  int ring;            // of kquants_rows.cuh and warpgroup_rows.cuh: bytes of a warp's ring of weights
  int activation;      // of gate
  Address residual2;   // as residual, which is there too
  Address glu_places;  // of glu_y, see operand.cuh; or 0
};

}  // namespace quern::cuda
