// matmul_id on the matrix units with f32 sums: the pairs of an expert are rows of a product with its weights.
//
//   block   64 pairs x 128 outputs in steps of 32 along k; 8 warps of 32 x 32
//   shared  2 stages x (64 + 128) x 40 x 2 B: 30 KiB
//   banks   rows of 40 elements (80 bytes): the eight rows of one matrix load start in different banks
//
// Activations are rounded to bf16, with f16 weights to f16. Block formats are decoded and rounded to bf16, 16-bit weights stay as they are.
#include "blocks.cuh"
#include "experts.cuh"
#include "matrix.cuh"

#if __CUDA_ARCH__ >= 800
enum { STEP = 32, COLUMNS = expert_columns, ROW = STEP + 8 };
enum Weights { OF_BLOCKS, OF_F16, OF_BF16 };

struct ExpertTile {
  u16 a[2][TILE_PAIRS * ROW], b[2][COLUMNS * ROW];
};

/// Sixteen elements as 16-bit numbers in eight words.
DEV void pack_sixteen(const float* v, bool half, u32* out) {
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = pack16(v[2 * i], v[2 * i + 1], half);
}
DEV void put_sixteen(u16* to, const u32* v) {
  reinterpret_cast<uint4*>(to)[0] = make_uint4(v[0], v[1], v[2], v[3]);
  reinterpret_cast<uint4*>(to)[1] = make_uint4(v[4], v[5], v[6], v[7]);
}
template <Weights W> DEV void fetch_weights(const Blocks& pieces, const WeightRow& row, i64 sixteen, u32* out) {
  if (!row.from) {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = 0;
  } else if (W == OF_BLOCKS) {
    float v[16];
    decode16(row.blocks(pieces), row.before + sixteen, v);
    pack_sixteen(v, false, out);
  } else {
    const uint4* from = reinterpret_cast<const uint4*>(row.from) + sixteen * 2;
    const uint4 low = from[0], high = from[1];
    out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
    out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
  }
}

template <Weights W> DEV void multiply_pairs(const ExpertParams& p, ExpertTile& s) {
  constexpr bool half = W == OF_F16;
  wait_for_inputs();
  int expert, first, count;
  if (!pairs_of_tile(p, blockIdx.y, expert, first, count)) return;
  const int* order = at<const int>(p.order) + first;
  const i64 n0 = (i64)blockIdx.x * COLUMNS;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, r = threadIdx.x / 2, part = threadIdx.x & 1;
  const bool has_pair = r < count;
  const char* const x = has_pair ? pair_row(p, p.a, order[r]) : nullptr;
  const WeightRow w = n0 + r < p.n ? WeightRow(p.b, p.row_sixteens, expert, n0 + r, p.n) : WeightRow();
  u32 a[8] = {}, b[8];
  const auto fetch = [&](i64 k0) {
    const i64 sixteen = k0 / 16 + part;
    if (has_pair) {
      float v[16];
      load_sixteen(p.a, x, sixteen, v);
      pack_sixteen(v, half, a);
    }
    fetch_weights<W>(p.pieces, w, sixteen, b);
  };
  const auto store = [&](int stage) {
    if (r < TILE_PAIRS) put_sixteen(&s.a[stage][r * ROW + part * 16], a);
    put_sixteen(&s.b[stage][r * ROW + part * 16], b);
  };
  const int wm = warp % 2 * 32, wn = warp / 2 * 32;
  const bool has_rows = wm < count;
  float sums[2][4][4] = {};
  fetch(0);
  store(0);
  __syncthreads();
  int stage = 0;
  for (i64 k0 = 0; k0 < p.k; k0 += STEP) {
    const bool more = k0 + STEP < p.k;
    if (has_rows) {
#pragma unroll
      for (int kk = 0; kk < STEP; kk += 16) {
        u32 fa[2][4], fb[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) load_matrices(fa[i], smem(&s.a[stage][(wm + i * 16 + lane % 16) * ROW + kk + lane / 16 * 8]));
#pragma unroll
        for (int j = 0; j < 2; ++j)
          load_matrices(fb[j], smem(&s.b[stage][(wn + j * 16 + lane % 8 + lane / 16 * 8) * ROW + kk + lane / 8 % 2 * 8]));
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) multiply16<half>(sums[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
      }
    }
    if (more) {
      fetch(k0 + STEP);
      store(stage ^ 1);
    }
    __syncthreads();
    stage ^= 1;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int row = wm + i * 16 + lane / 4 + below * 8;
      if (row >= count) continue;
      char* const y = const_cast<char*>(pair_row(p, p.y, order[row]));
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const i64 n = n0 + wn + j * 8 + lane % 4 * 2 + e;
          if (n < p.n) store_at(p.y, y, n, sums[i][j][below * 2 + e]);
        }
    }
}
#define MULTIPLY_PAIRS(weights) \
  __shared__ __align__(16) ExpertTile s; \
  multiply_pairs<weights>(p, s);
#else
#define MULTIPLY_PAIRS(weights)
#endif

KERNEL(256) matmul_id_blocks(const __grid_constant__ ExpertParams p) { MULTIPLY_PAIRS(OF_BLOCKS) }
KERNEL(256) matmul_id_f16(const __grid_constant__ ExpertParams p) { MULTIPLY_PAIRS(OF_F16) }
KERNEL(256) matmul_id_bf16(const __grid_constant__ ExpertParams p) { MULTIPLY_PAIRS(OF_BF16) }
