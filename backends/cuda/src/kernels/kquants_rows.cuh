// y = W x for 1 to 64 rows of f16 activations, W of formats of kquants_formats.cuh, on the matrix units (kquants.cuh): the kernels of
// kquants_<format>.cu. One has the formats that files mix in a step's parts, and no more: in common kernels each would have the registers of the one that
// needs most.
#pragma once
#include "kquants.cuh"
#include "warpgroup_rows.cuh"

#if __CUDA_ARCH__ >= 900
/// Part and first row of a tile of this block.
struct Tile {
  int part = 0, first;
  DEV Tile(const MixedParams& p, int tile) {
    int index = tile * (int)gridDim.x + (int)blockIdx.x;
    if (!p.glu)
      while (part < p.parts - 1 && index >= (p.part[part].rows + 15) / 16) index -= (p.part[part++].rows + 15) / 16;
    first = index * (p.glu ? 8 : 16);
  }
};

/// What a lane adds to its sums of a tile and of eight columns from `left` on. In the tail: four words of each lane of each warp, asked for before
/// the products, for the warp's first unit.
struct Residual {
  enum { BYTES = kquants_tail_bytes };
  int column, output, row;  // the first of two, and of two 8 apart; elements from column to column
  DEV Residual(const MixedParams& p, int first, int left)
      : column(left + 2 * ((int)threadIdx.x & 3)), output(first + row_of(((int)threadIdx.x & 31) >> 2)), row(p.part[0].row) {}
  DEV bool there(const MixedParams& p, int i) const { return column + (i & 1) < p.t && output + (i >> 1) * 8 < p.part[0].rows; }
  DEV const float* at_sum(const MixedParams& p, int i) const { return at<const float>(p.residual) + (i64)(column + (i & 1)) * row + output + (i >> 1) * 8; }
};
DEV u32 residual_words(const MixedParams& p, char* memory) { return smem(Shared(p).tail(p, memory)) + (threadIdx.x >> 5) * Residual::BYTES + (threadIdx.x & 31) * 4; }
template <int NT> DEV void ask_residual(const MixedParams& p, char* memory) {
  const int warp = threadIdx.x >> 5;
  if (warp >= p.tiles * NT) return;
  const Residual unit(p, Tile(p, warp / NT).first, warp % NT * 8);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (unit.there(p, i)) copy_4(residual_words(p, memory) + i * 128, reinterpret_cast<const char*>(unit.at_sum(p, i)));
}

template <int F, int G, int NT> DEV void kquants(const MixedParams& p, char* memory) {
  start_next();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  float tot[NT][4] = {};
  {
    const Tile tile(p, warp % p.tiles);
    const MixedPart& q = p.part[tile.part];
    const Rows rows{q.w, p.part[p.glu ? 1 : tile.part].w, min(tile.first, q.rows - 1), q.rows - 1, p.k / 256, p.glu != 0};
    const bool some = tile.first < q.rows;
    const auto ask_more = [&] {
      if (p.residual) ask_residual<NT>(p, memory);
    };
    const auto none = [] {};
    if (F == G || q.w.dtype == F) all_products<F, NT>(p, p.x, rows, some, memory, tot, none, ask_more);
    else all_products<G, NT>(p, p.x, rows, some, memory, tot, none, ask_more);
  }
  join_ways<NT>(p, memory, tot, [&](int index, int left, const float* sum, int unit) {
    const Tile tile(p, index);
    if (!p.residual) return store_tile(p, tile.part, tile.first, row_of(lane >> 2), left, sum);
    const Residual of(p, tile.first, left);
    float residual[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      residual[i] = !of.there(p, i) ? 0.0f : unit == warp ? __uint_as_float(load_4(residual_words(p, memory) + i * 128)) : __ldcg(of.at_sum(p, i));
    store_tile(p, 0, tile.first, row_of(lane >> 2), left, sum, residual);
  });
}
#define KQUANTS(F, G, NT) \
  extern __shared__ __align__(128) char memory[]; \
  kquants<F, G, NT>(p, memory);
#else
#define KQUANTS(F, G, NT)
#endif
#define KQUANTS_OF(name, F, G, columns, NT) \
  extern "C" __global__ void __launch_bounds__(32 * kquants_most_warps(columns), columns < 32 ? 2 : 1) \
      kquants_##columns##name(const __grid_constant__ MixedParams p) { KQUANTS(F, G, NT) }
/// Kernels of weights of F, and of G beside it.
#define KQUANTS_KERNELS(name, F, G) \
  KQUANTS_OF(name, F, G, 8, 1) \
  KQUANTS_OF(name, F, G, 16, 2) \
  KQUANTS_OF(name, F, G, 32, 4) \
  KQUANTS_OF(name, F, G, 64, 8) \
  WARPGROUP_KERNEL(name, F, G)
