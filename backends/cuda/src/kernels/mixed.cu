// y = W x for 1 to 64 rows of 16-bit activations on the matrix units, W of f16 or bf16 as it is, for cards with bulk copies (9.0 and newer).
// (Of blocks: kquants_rows.cuh.)
//
//   weights  each lane reads 16 bytes of a row at a time from memory into registers, a block of 256 ahead
//   k order  inside a step of 16, lane t has those four elements of both operands that it has read: the sum does not care
//   block    a warp has 16 rows of W (under glu 8 of gate and 8 of up), or `ways` warps share them along k and add up at the end; all rows of
//            the block go through k together, since they share the activations
//   columns  activations come in chunks, two of them under way, as they lie in memory (operand.cuh); one row comes as a whole, and all eight
//            columns of the matrix units read it; a block may make it itself from f32, with a norm (raw)
#include "mixed.hpp"
#include "bulk.cuh"
#include "mixed.cuh"

#if __CUDA_ARCH__ >= 900
template <int F> DEV void multiply_pairs(float* c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if (F != BF16) return multiply_half(c, a0, a1, a2, a3, b0, b1);
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
/// In its place: earlier it would take registers, later it would be waited for.
template <int OFFSET> DEV uint4 load_weights(const char* p) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4+%5];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p), "n"(OFFSET));
  return v;
}

/// In its place as well.
DEV uint4 load_activations(const char* p) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(smem(p)));
  return v;
}

/// What a lane has of a block of 256 in rows g and g + 8: each half of the codes is loaded anew as soon as it is used up.
struct Held { uint4 codes[2][2][4]; };  // [half][row][32 elements]

/// Where a lane's part of block 0 of its two rows is.
struct Places {
  const char* row[2];
};
template <int HALF> DEV void load_half(Held& w, const Places& l, int block) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const char* p = l.row[r] + (i64)block * 512;
    w.codes[HALF][r][0] = load_weights<HALF * 256>(p);
    w.codes[HALF][r][1] = load_weights<HALF * 256 + 64>(p);
    w.codes[HALF][r][2] = load_weights<HALF * 256 + 128>(p);
    w.codes[HALF][r][3] = load_weights<HALF * 256 + 192>(p);
  }
}

/// A chunk of activations in shared memory: bytes from one block of 256 to the next and from one column to the next.
struct Seen {
  const char* x;
  int block, pitch;
};

/// Adds the products of a block of 256, `place` of the chunk, and loads block `next`: always, a condition would have the loads waited for.
template <int NT, int F> DEV void block_products(Held& w, const Places& l, int next, const Seen& s, int place, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const char* column = s.x + place * s.block + g * s.pitch + t * 16;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 &a = w.codes[h][0][i], &b = w.codes[h][1][i];
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const uint4 x = load_activations(column + n * 8 * s.pitch + h * 256 + (i ^ i >> 1) * 64);
        multiply_pairs<F>(tot[n], a.x, b.x, a.y, b.y, x.x, x.y);
        multiply_pairs<F>(tot[n], a.z, b.z, a.w, b.w, x.z, x.w);
      }
    }
    h == 0 ? load_half<0>(w, l, next) : load_half<1>(w, l, next);
  }
}
/// The whole row made of f32, perhaps normalised: before the wait nothing but the norm's weights is read.
template <int F> DEV void make_row(const MixedParams& p, char* x, float* sums) {
  const int quads = p.k / 4;
  const float* weights = at<const float>(p.raw_weight);
  float4 v[4], w[4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (const int i = j * blockDim.x + threadIdx.x; weights && i < quads) w[j] = reinterpret_cast<const float4*>(weights)[i];
  wait_previous();
  if (p.settles) start_next();
  const float4* from = at<const float4>(p.raw);
  float sum = 0.0f, factor = 1.0f;
  const auto add = [&](const float4& a) { sum = fmaf(a.x, a.x, fmaf(a.y, a.y, fmaf(a.z, a.z, fmaf(a.w, a.w, sum)))); };
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (const int i = j * blockDim.x + threadIdx.x; i < quads) v[j] = __ldcg(from + i);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (j * blockDim.x + threadIdx.x < quads) add(v[j]);
  for (int i = 4 * blockDim.x + threadIdx.x; i < quads; i += blockDim.x) add(__ldcg(from + i));
  if (weights) {
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < blockDim.x >> 5; ++i) sum += sums[i];
    factor = 1.0f / sqrtf(sum / (float)p.k + p.epsilon);
  }
  const auto store = [&](int i, const float4& a, const float4& b) {
    const float4 y = !weights ? a
                              : make_float4(a.x * factor * (b.x + p.raw_offset), a.y * factor * (b.y + p.raw_offset),
                                            a.z * factor * (b.z + p.raw_offset), a.w * factor * (b.w + p.raw_offset));
    *reinterpret_cast<uint2*>(x + i / 64 * OPERAND_PITCH + swizzled_chunk(i / 2 & 31) + (i & 1) * 8) = make_uint2(pack16(y.x, y.y, F != BF16), pack16(y.z, y.w, F != BF16));
  };
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (const int i = j * blockDim.x + threadIdx.x; i < quads) store(i, v[j], w[j]);
  for (int i = 4 * blockDim.x + threadIdx.x; i < quads; i += blockDim.x)
    store(i, __ldcg(from + i), weights ? reinterpret_cast<const float4*>(weights)[i] : make_float4(1.0f, 1.0f, 1.0f, 1.0f));
}

/// What is the same for all formats of a warp's rows.
struct Share {
  int slice, blocks;  // of the ways; blocks of 256 in k
};
/// All blocks of a warp: each chunk has `span` of them.
template <int F, int NT> DEV void all_products(const MixedParams& p, const Share& own, const Blocks& w, i64 row, const Blocks& w2, i64 row2, char* memory,
                                               float (*tot)[4]) {
  const int of_chunk = p.ways * p.span, chunks = (own.blocks + of_chunk - 1) / of_chunk;
  const int t = threadIdx.x & 3;
  const Places l = {{at<const char>(w.plane[0]) + row * own.blocks * 512 + t * 16, at<const char>(w2.plane[0]) + row2 * own.blocks * 512 + t * 16}};
  const int first = own.slice * p.span;
  Held held;
  if (first < own.blocks) {
    load_half<0>(held, l, first);
    load_half<1>(held, l, first);
  }
  const int bytes = of_chunk * p.columns * OPERAND_PITCH, all = own.blocks * p.columns * OPERAND_PITCH;
  u64* full = reinterpret_cast<u64*>(memory + (p.columns > 1 ? 2 : 1) * bytes);
  const auto ask = [&](int chunk) {  // one thread
    const int here = min(bytes, all - chunk * bytes);
    barrier_expect(&full[chunk & 1], here);
    bulk_copy(memory + (chunk & 1) * bytes, at<const char>(p.x) + (i64)chunk * bytes, here, &full[chunk & 1]);
  };
  if (threadIdx.x == 0) {
    barrier_init(&full[0], 1);
    barrier_init(&full[1], 1);
    fence_barriers();
  }
  if (p.raw) {
    make_row<F>(p, memory, reinterpret_cast<float*>(full + 2));
    __syncthreads();
  } else {
    wait_previous();
    if (p.settles) start_next();
    __syncthreads();
    if (threadIdx.x == 0)
      for (int chunk = 0; chunk < min(chunks, 2); ++chunk) ask(chunk);
  }
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (!p.raw) barrier_wait(&full[chunk & 1], (u32)(chunk >> 1) & 1u);
    const Seen seen = {memory + (chunk & 1) * bytes, p.columns * OPERAND_PITCH, p.columns > 1 ? OPERAND_PITCH : 0};
#pragma unroll 1
    for (int i = 0; i < p.span; ++i) {
      const int block = chunk * of_chunk + first + i, then = i + 1 < p.span ? block + 1 : block + 1 - p.span + of_chunk;
      if (block < own.blocks) block_products<NT, F>(held, l, then < own.blocks ? then : block, seen, first + i, tot);
    }
    if (chunk + 2 >= chunks) continue;
    __syncthreads();
    if (threadIdx.x == 0) ask(chunk + 2);
  }
}

template <int NT> DEV void mixed(const MixedParams& p, char* memory) {
  if (!p.settles) start_next();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, tile = warp % p.tiles;
  Share own{warp / p.tiles, p.k / 256};
  int part = 0, first = (blockIdx.x * p.tiles + tile) * (p.glu ? 8 : 16);
  if (!p.glu)
    while (part < p.parts - 1 && first >= p.part[part].rows) first -= p.part[part++].rows;
  const MixedPart &q = p.part[part], &q2 = p.part[p.glu ? 1 : part];
  const int last = q.rows - 1;
  const i64 row = min(first + g, last), row2 = min(first + (p.glu ? g : g + 8), last);
  float tot[NT][4] = {};
  if (q.w.dtype == F16) all_products<F16, NT>(p, own, q.w, row, q2.w, row2, memory, tot);
  else all_products<BF16, NT>(p, own, q.w, row, q2.w, row2, memory, tot);
  if (p.ways > 1) {  // sums of the other slices, in their order
    __syncthreads();
    float* sums = reinterpret_cast<float*>(memory) + lane;
    if (own.slice > 0)
#pragma unroll
      for (int i = 0; i < NT * 4; ++i) sums[((warp - p.tiles) * NT * 4 + i) * 32] = tot[i / 4][i & 3];
    __syncthreads();
    if (own.slice > 0) return;
    for (int s = 0; s < p.ways - 1; ++s)
#pragma unroll
      for (int i = 0; i < NT * 4; ++i) tot[i / 4][i & 3] += sums[((s * p.tiles + tile) * NT * 4 + i) * 32];
  }
#pragma unroll
  for (int n = 0; n < NT; ++n) store_tile(p, part, first, g, n * 8, tot[n]);
}
#endif

#if __CUDA_ARCH__ >= 900
#define MIXED(NT) \
  extern __shared__ __align__(128) char memory[]; \
  mixed<NT>(p, memory);
#else
#define MIXED(NT)
#endif
#define MIXED_KERNEL(columns, NT) \
  extern "C" __global__ void __launch_bounds__(32 * mixed_most_warps(columns), 1) mixed_##columns(const __grid_constant__ MixedParams p) { MIXED(NT) }
MIXED_KERNEL(8, 1)
MIXED_KERNEL(16, 2)
MIXED_KERNEL(32, 4)
MIXED_KERNEL(64, 8)
