// y = x W^T on the matrix units in bf16 with f32 sums: weights of any format are decoded, activations rounded, on their way to
// shared memory.
//
//   block   BM x 128 of y (BM = 128 or 32) in steps of 32 along k; 8 warps.
//   shared  2 stages x (BM + 128) x 40 x 2 B: 40 KiB at BM = 128.
//   split   Weights of f16 and f32 go in as two bf16 parts each, since only activations may be rounded (45 KiB at BM = 32).
//   turned  W^T is W: its rows are steps of k, and their blocks lie along n. A tile of 32 rows is stored as it lies, and the loads turn it.
//   banks   Rows have 40 elements (80 bytes), of turned weights 136 (272). So the eight rows of one matrix load start in different banks.
//   f16     Where only f16 is allowed, turned weights and activations are rounded to TF32. It has f16's fraction and no smaller range. Steps are
//           of 16, in 2 stages x (128 x 20 + 16 x 136) x 4 B = 37 KiB. Rows of 20 and 136 keep the 32 words of one load in different banks.
#include "blocks.cuh"
#include "gemm.hpp"
#include "matrix.cuh"

#if __CUDA_ARCH__ >= 800
enum Weights { IN_ROWS, SPLIT, TURNED };

template <int BM, Weights W> struct Tile {
  enum { row = 40, warps_m = BM == 128 ? 2 : 1, warps_n = 8 / warps_m, mt = BM / warps_m / 16, nt = 128 / warps_n / 8 };
  enum { w_row = W == TURNED ? 136 : row, w_size = W == TURNED ? 32 * w_row : 128 * w_row };
  u16 a[2][BM * row], b[2][w_size], low[W == SPLIT ? 2 : 1][W == SPLIT ? w_size : 8];

  /// Where this thread's sixteen weights of a step go.
  static DEV int w_place() {
    return W == TURNED ? threadIdx.x / 8 * w_row + threadIdx.x % 8 * 16 : threadIdx.x / 2 * w_row + threadIdx.x % 2 * 16;
  }
  /// 16 x 16 weights from column n and step kk on, as the products of two times 8 columns take them.
  static DEV void load_weights(u32* r, const u16* tile, int n, int kk) {
    const int lane = threadIdx.x & 31;
    if (W == TURNED) load_transposed(r, smem(tile + (kk + lane % 16) * w_row + n + lane / 16 * 8));
    else load_matrices(r, smem(tile + (n + lane % 8 + lane / 16 * 8) * w_row + kk + lane / 8 % 2 * 8));
  }
};

template <int BM> DEV void fetch_a(const GemmParams& p, int m0, int k0, u32 (*out)[8]) {
  // sixteen elements of k a thread: BM * 2 sixteens
#pragma unroll
  for (int j = 0; j < (BM * 2 + 255) / 256; ++j) {
    const int e = threadIdx.x + j * 256, m = m0 + e / 2;
    if (e >= BM * 2) break;
    if (m >= p.m) {
      for (int i = 0; i < 8; ++i) out[j][i] = 0;
    } else if (p.x_dtype == F32) {
      const float4* x = reinterpret_cast<const float4*>(at<const float>(p.x) + (i64)m * p.k + k0 + (e & 1) * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 v = x[i];
        out[j][2 * i] = pack_bf16(v.x, v.y);
        out[j][2 * i + 1] = pack_bf16(v.z, v.w);
      }
    } else if (p.x_dtype == BF16 && p.x % 16 == 0) {
      const uint4* x = reinterpret_cast<const uint4*>(at<const u16>(p.x) + (i64)m * p.k + k0 + (e & 1) * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 v = x[i];
        for (int w = 0; w < 4; ++w) out[j][4 * i + w] = word_of(v, w);
      }
    } else {
      for (int i = 0; i < 8; ++i) {
        const i64 at_element = (i64)m * p.k + k0 + (e & 1) * 16 + 2 * i;
        out[j][i] = pack_bf16(load_float(at<const char>(p.x), p.x_dtype, at_element),
                              load_float(at<const char>(p.x), p.x_dtype, at_element + 1));
      }
    }
  }
}
template <Weights W> DEV void fetch_b(const GemmParams& p, int n0, int k0, u32* out, u32* low) {
  float w[16] = {};
  if (W == TURNED) {
    const int row = k0 + threadIdx.x / 8, n = n0 + threadIdx.x % 8 * 16;
    if (row < p.w_rows && n < p.n) decode16(p.w, ((i64)row * p.n + n) / 16, w);
  } else {
    const int n = n0 + threadIdx.x / 2;
    if (n < p.n) decode16(p.w, ((i64)n * p.k + k0) / 16 + threadIdx.x % 2, w);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out[i] = pack_bf16(w[2 * i], w[2 * i + 1]);
    if (W == SPLIT) low[i] = pack_bf16(w[2 * i] - __uint_as_float(out[i] << 16), w[2 * i + 1] - __uint_as_float(out[i] & 0xffff0000u));
  }
}
/// What is added to a product, and where it goes.
DEV void store_product(const GemmParams& p, i64 m, i64 n, float sum) {
  float y = sum * p.alpha;
  if (p.bias) y += at<const float>(p.bias)[n];
  if (p.c) y = fmaf(p.beta, load_float(at<const char>(p.c), p.c_dtype, m * p.n + n), y);
  store_float(at<char>(p.y), p.y_dtype, m * p.n + n, y);
}
/// The steps along k that are this block's: of `step` elements each, from `first` to `end`.
struct Steps {
  int first, end;
  DEV Steps(const GemmParams& p, int step) : first(0), end(p.k) {
    if (p.splits <= 1) return;
    const int each = ((p.k + step - 1) / step + p.splits - 1) / p.splits * step;
    first = (int)blockIdx.z * each;
    end = min(first + each, p.k);
  }
};

/// Stores the products of a warp, whose first one is of row m0 and column n0.
template <int MT, int NT> DEV void finish(const GemmParams& p, const float (&acc)[MT][NT][4], int m0, int n0) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const i64 m = m0 + i * 16 + lane / 4 + e / 2 * 8, n = n0 + j * 8 + lane % 4 * 2 + e % 2;
        if (m >= p.m || n >= p.n) continue;
        if (p.splits > 1) at<float>(p.parts)[((i64)blockIdx.z * p.m + m) * p.n + n] = acc[i][j][e];
        else store_product(p, m, n, acc[i][j][e]);
      }
}
DEV void put(u16* to, const u32* v) {
  reinterpret_cast<uint4*>(to)[0] = make_uint4(v[0], v[1], v[2], v[3]);
  reinterpret_cast<uint4*>(to)[1] = make_uint4(v[4], v[5], v[6], v[7]);
}

template <int BM, Weights W> DEV void gemm(const GemmParams& p, Tile<BM, W>& s) {
  typedef Tile<BM, W> L;
  wait_for_inputs();
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * 128, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int wm = warp % L::warps_m * (BM / L::warps_m), wn = warp / L::warps_m * (128 / L::warps_n);
  float acc[L::mt][L::nt][4] = {};
  u32 a[(BM * 2 + 255) / 256][8], b[8], low[8];
  const auto store = [&](int stage) {
#pragma unroll
    for (int j = 0; j < (BM * 2 + 255) / 256; ++j) {
      const int e = threadIdx.x + j * 256;
      if (e < BM * 2) put(&s.a[stage][e / 2 * L::row + (e & 1) * 16], a[j]);
    }
    put(&s.b[stage][L::w_place()], b);
    if (W == SPLIT) put(&s.low[stage][L::w_place()], low);
  };
  const Steps steps(p, 32);
  if (steps.first < steps.end) {
    fetch_a<BM>(p, m0, steps.first, a);
    fetch_b<W>(p, n0, steps.first, b, low);
    store(0);
  }
  __syncthreads();
  int stage = 0;
  for (int k0 = steps.first; k0 < steps.end; k0 += 32) {
    const bool more = k0 + 32 < steps.end;
    if (more) {
      fetch_a<BM>(p, m0, k0 + 32, a);
      fetch_b<W>(p, n0, k0 + 32, b, low);
    }
#pragma unroll
    for (int kk = 0; kk < 32; kk += 16) {
      u32 fa[L::mt][4], fb[L::nt / 2][4];
#pragma unroll
      for (int i = 0; i < L::mt; ++i) load_matrices(fa[i], smem(&s.a[stage][(wm + i * 16 + lane % 16) * L::row + kk + lane / 16 * 8]));
      const auto add_products = [&](const u16* weights) {
#pragma unroll
        for (int j = 0; j < L::nt / 2; ++j) L::load_weights(fb[j], weights, wn + j * 16, kk);
#pragma unroll
        for (int i = 0; i < L::mt; ++i)
#pragma unroll
          for (int j = 0; j < L::nt; ++j) multiply16<false>(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
      };
      add_products(s.b[stage]);
      if (W == SPLIT) add_products(s.low[stage]);
    }
    if (more) store(stage ^ 1);
    __syncthreads();
    stage ^= 1;
  }
  finish(p, acc, m0 + wm, n0 + wn);
}

struct TileTf32 {
  enum { step = 16, a_row = 20, w_row = 136 };
  u32 a[2][128 * a_row], w[2][step * w_row];
};

DEV void gemm_tf32(const GemmParams& p, TileTf32& s) {
  typedef TileTf32 L;
  wait_for_inputs();
  const int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int wm = warp % 2 * 64, wn = warp / 2 * 32, row = threadIdx.x % 128;
  const bool has_weights = threadIdx.x < 128;  // the first half of the threads; the other half has a row of activations each
  float v[16], acc[4][4][4] = {};
  const auto fetch = [&](int k0) {
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = 0.0f;
    const int k = k0 + row / 8, n = n0 + row % 8 * 16;
    if (has_weights) {
      if (k < p.w_rows && n < p.n) decode16(p.w, ((i64)k * p.n + n) / 16, v);
    } else if (m0 + row < p.m) {
      const Blocks x{{p.x}, {p.x_dtype == F32 ? 64 : 32}};
      const i64 sixteen = ((i64)(m0 + row) * p.k + k0) / 16;
      if (p.x_dtype == F32) Format<F32>::decode16(x, sixteen, 0, v);
      else if (p.x_dtype == F16) Format<F16>::decode16(x, sixteen, 0, v);
      else Format<BF16>::decode16(x, sixteen, 0, v);
    }
  };
  const auto store = [&](int stage) {
    uint4* to = reinterpret_cast<uint4*>(has_weights ? &s.w[stage][row / 8 * L::w_row + row % 8 * 16] : &s.a[stage][row * L::a_row]);
#pragma unroll
    for (int i = 0; i < 16; i += 4) to[i / 4] = make_uint4(to_tf32(v[i]), to_tf32(v[i + 1]), to_tf32(v[i + 2]), to_tf32(v[i + 3]));
  };
  const Steps steps(p, L::step);
  if (steps.first < steps.end) {
    fetch(steps.first);
    store(0);
  }
  __syncthreads();
  int stage = 0;
  for (int k0 = steps.first; k0 < steps.end; k0 += L::step) {
    const bool more = k0 + L::step < steps.end;
    if (more) fetch(k0 + L::step);
#pragma unroll
    for (int kk = 0; kk < L::step; kk += 8) {
      u32 a[4][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) a[i][e] = s.a[stage][(wm + i * 16 + lane / 4 + e % 2 * 8) * L::a_row + kk + lane % 4 + e / 2 * 4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) b[j][e] = s.w[stage][(kk + lane % 4 + e * 4) * L::w_row + wn + j * 8 + lane / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply_tf32(acc[i][j], a[i], b[j][0], b[j][1]);
    }
    if (more) store(stage ^ 1);
    __syncthreads();
    stage ^= 1;
  }
  finish(p, acc, m0 + wm, n0 + wn);
}
#endif

KERNEL(256) gemm_mma_128(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_rows, IN_ROWS> s;
  gemm<gemm_rows, IN_ROWS>(p, s);
#endif
}
KERNEL(256) gemm_mma_32(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_few_rows, IN_ROWS> s;
  gemm<gemm_few_rows, IN_ROWS>(p, s);
#endif
}
KERNEL(256) gemm_mma_split(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_few_rows, SPLIT> s;
  gemm<gemm_few_rows, SPLIT>(p, s);
#endif
}
KERNEL(256) gemm_mma_turned_128(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_rows, TURNED> s;
  gemm<gemm_rows, TURNED>(p, s);
#endif
}
KERNEL(256) gemm_mma_turned_32(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_few_rows, TURNED> s;
  gemm<gemm_few_rows, TURNED>(p, s);
#endif
}
KERNEL(256) gemm_tf32_turned(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) TileTf32 s;
  gemm_tf32(p, s);
#endif
}
/// The products of blocks that shared k.
KERNEL(256) gemm_join(const __grid_constant__ GemmParams p) {
  wait_for_inputs();
#if __CUDA_ARCH__ >= 800
  const i64 count = (i64)p.m * p.n;
  FOR_EACH(i, count) {
    float sum = 0.0f;
    for (int split = 0; split < p.splits; ++split) sum += at<const float>(p.parts)[split * count + i];
    store_product(p, i / p.n, i % p.n, sum);
  }
#endif
}
