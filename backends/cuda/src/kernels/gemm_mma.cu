// y = x W^T on the matrix units in bf16 with f32 sums: weights of any format are decoded, activations rounded, on their way to
// shared memory.
//
//   block   BM x 128 of y (BM = 128 or 32) in steps of 32 along k; 8 warps
//   shared  2 stages x (BM + 128) x 40 x 2 B: 40 KiB at BM = 128
//   split   weights of f16 and f32 go in as two bf16 parts each, since only activations may be rounded (45 KiB at BM = 32)
//   banks   rows of 40 elements (80 bytes): the eight rows of one matrix load start in different banks
#include "blocks.cuh"
#include "gemm.hpp"

#if __CUDA_ARCH__ >= 800
DEV void load_matrices(u32* r, const u16* p) {
  const u32 a = (u32)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
DEV void multiply(float* c, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int BM, bool SPLIT> struct Tile {
  enum { row = 40, warps_m = BM == 128 ? 2 : 1, warps_n = 8 / warps_m, mt = BM / warps_m / 16, nt = 128 / warps_n / 8 };
  u16 a[2][BM * row], b[2][128 * row], low[SPLIT ? 2 : 1][SPLIT ? 128 * row : 8];
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
    } else {
      for (int i = 0; i < 8; ++i) {
        const i64 at_element = (i64)m * p.k + k0 + (e & 1) * 16 + 2 * i;
        out[j][i] = pack_bf16(load_float(at<const char>(p.x), p.x_dtype, at_element),
                              load_float(at<const char>(p.x), p.x_dtype, at_element + 1));
      }
    }
  }
}
template <bool SPLIT> DEV void fetch_b(const GemmParams& p, int n0, int k0, u32* out, u32* low) {
  const int n = n0 + threadIdx.x / 2;
  float w[16] = {};
  if (n < p.n) decode16(p.w, ((i64)n * p.k + k0) / 16 + (threadIdx.x & 1), w);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out[i] = pack_bf16(w[2 * i], w[2 * i + 1]);
    if (SPLIT) low[i] = pack_bf16(w[2 * i] - __uint_as_float(out[i] << 16), w[2 * i + 1] - __uint_as_float(out[i] & 0xffff0000u));
  }
}
DEV void put(u16* to, const u32* v) {
  reinterpret_cast<uint4*>(to)[0] = make_uint4(v[0], v[1], v[2], v[3]);
  reinterpret_cast<uint4*>(to)[1] = make_uint4(v[4], v[5], v[6], v[7]);
}

template <int BM, bool SPLIT> DEV void gemm(const GemmParams& p, Tile<BM, SPLIT>& s) {
  typedef Tile<BM, SPLIT> L;
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
    put(&s.b[stage][threadIdx.x / 2 * L::row + (threadIdx.x & 1) * 16], b);
    if (SPLIT) put(&s.low[stage][threadIdx.x / 2 * L::row + (threadIdx.x & 1) * 16], low);
  };
  fetch_a<BM>(p, m0, 0, a);
  fetch_b<SPLIT>(p, n0, 0, b, low);
  store(0);
  __syncthreads();
  int stage = 0;
  for (int k0 = 0; k0 < p.k; k0 += 32) {
    const bool more = k0 + 32 < p.k;
    if (more) {
      fetch_a<BM>(p, m0, k0 + 32, a);
      fetch_b<SPLIT>(p, n0, k0 + 32, b, low);
    }
#pragma unroll
    for (int kk = 0; kk < 32; kk += 16) {
      u32 fa[L::mt][4], fb[L::nt / 2][4];
#pragma unroll
      for (int i = 0; i < L::mt; ++i) load_matrices(fa[i], &s.a[stage][(wm + i * 16 + lane % 16) * L::row + kk + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < L::nt / 2; ++j)
        load_matrices(fb[j], &s.b[stage][(wn + j * 16 + lane % 8 + lane / 16 * 8) * L::row + kk + lane / 8 % 2 * 8]);
#pragma unroll
      for (int i = 0; i < L::mt; ++i)
#pragma unroll
        for (int j = 0; j < L::nt; ++j) multiply(acc[i][j], fa[i], &fb[j / 2][j % 2 * 2]);
      if (SPLIT) {
#pragma unroll
        for (int j = 0; j < L::nt / 2; ++j)
          load_matrices(fb[j], &s.low[stage][(wn + j * 16 + lane % 8 + lane / 16 * 8) * L::row + kk + lane / 8 % 2 * 8]);
#pragma unroll
        for (int i = 0; i < L::mt; ++i)
#pragma unroll
          for (int j = 0; j < L::nt; ++j) multiply(acc[i][j], fa[i], &fb[j / 2][j % 2 * 2]);
      }
    }
    if (more) store(stage ^ 1);
    __syncthreads();
    stage ^= 1;
  }
#pragma unroll
  for (int i = 0; i < L::mt; ++i)
#pragma unroll
    for (int j = 0; j < L::nt; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const i64 m = m0 + wm + i * 16 + lane / 4 + e / 2 * 8, n = n0 + wn + j * 8 + lane % 4 * 2 + e % 2;
        if (m >= p.m || n >= p.n) continue;
        float y = acc[i][j][e] * p.alpha;
        if (p.bias) y += at<const float>(p.bias)[n];
        if (p.c) y = fmaf(p.beta, load_float(at<const char>(p.c), p.c_dtype, m * p.n + n), y);
        store_float(at<char>(p.y), p.y_dtype, m * p.n + n, y);
      }
}
#endif

KERNEL(256) gemm_mma_128(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_rows, false> s;
  gemm<gemm_rows, false>(p, s);
#endif
}
KERNEL(256) gemm_mma_32(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_few_rows, false> s;
  gemm<gemm_few_rows, false>(p, s);
#endif
}
KERNEL(256) gemm_mma_split(const __grid_constant__ GemmParams p) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(16) Tile<gemm_few_rows, true> s;
  gemm<gemm_few_rows, true>(p, s);
#endif
}
