// Products with Q4_K and Q6_K weights on the matrix units, for cards with bulk copies (9.0 and newer): what kquants.cu and experts_kquants.cu share.
//
//   numbers  A is sub-scale x code: of Q4_K exact (at most 63 x 15), of Q6_K rounded where it is above 2048. The scale of 256, and the
//            minimums, whose products take means of eight activations, are applied to the sums in f32
//   weights  each warp has 16 rows of W (under glu 8 of gate and 8 of up) and a ring of blocks of 256 of them in shared memory, which its
//            lanes fill 16 bytes at a time: the first are asked for before the wait for the kernel before
//   k order  inside a step of 16, lane t has those four elements of both operands that it has read: the sum does not care
//   block    `ways` warps share a tile along k, every `ways`-th block of 256 each, and add up at the end; all go through k together, since
//            they share the activations. Tiles of a block are far apart, so that those of Q6_K, which take longer, are not all in some blocks
//   columns  activations come in chunks, two of them under way, as they lie in memory (operand.cuh)
#pragma once
#include "mixed.hpp"
#include "bulk.cuh"
#include "mixed.cuh"

#if __CUDA_ARCH__ >= 900
/// d = a * b + c in two halves.
DEV u32 fma2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
DEV u32 mul2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
DEV u32 add2(u32 a, u32 b) {
  u32 d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
DEV u32 sub2(u32 a, u32 b) {
  u32 d;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// Pairs of f16.
enum : u32 {
  TWO_64 = 0x54005400,           // 64 + n / 16 for a mantissa n
  TWO_1024 = 0x64006400,         // 1024 + n
  LESS_1024 = 0xe400e400,        // -1024
  LESS_1152 = 0xe480e480,        // -1152
  LESS_96 = 0xd600d600,          // -96
  LESS_64 = 0xd400d400,          // -64
  TWO_SIXTEENTHS = 0x2c002c00,   // 1 / 16
  TWO_EIGHTHS = 0x30003000       // 1 / 8
};

/// a & mask | b in one instruction.
DEV u32 merged(u32 a, u32 mask, u32 b) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(b));
  return d;
}
/// The bytes of a word, two at a time, as 1024 more than they are: bytes 0 and 1 with 0x4140, 2 and 3 with 0x4342; one of them twice.
DEV u32 bytes_1024(u32 word, u32 which) { return __byte_perm(word, TWO_1024 >> 8, which); }
DEV void copy_16(u32 to, const char* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
DEV void copy_4(u32 to, const char* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory"); }
/// In their place: earlier they would take registers.
DEV uint4 load_16(u32 p) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(p));
  return v;
}
DEV u32 load_4(u32 p) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(p));
  return v;
}
/// Row of a tile of 16 that is row g of the matrix units: so what eight lanes read at a time is in different banks.
DEV int row_of(int g) { return (g & 1) * 4 + (g >> 1); }

/// Rows of a tile: 16 of one matrix, or under glu 8 of each of two.
struct Rows {
  const Blocks &w, &w2;
  int first, last, blocks;  // the last row of the matrix; blocks of 256 of a row
  bool glu;
  i64 before = 0;  // blocks that lie before the matrix
  DEV const Blocks& of(int r) const { return glu && r >= 8 ? w2 : w; }
  DEV i64 block(int r, int b) const { return before + (i64)min(first + (glu ? r & 7 : r), last) * blocks + b; }
};

/// How a block of 256 of a tile's rows comes and lies in a ring: `bytes` of it.
template <int F> struct Ring;
template <> struct Ring<Q4_K> {  // rows as they are
  enum { pitch = 144, bytes = 16 * pitch, stages = 3, copies = 5 };
  const char *base, *base2;
  u32 from[copies];
  DEV explicit Ring(const Rows& rows) {
    base = at<const char>(rows.w.plane[0]) + rows.block(0, 0) * 144;
    base2 = rows.glu ? at<const char>(rows.w2.plane[0]) + rows.block(0, 0) * 144 : base;
#pragma unroll
    for (int i = 0; i < copies; ++i) {
      const int c = min(i * 32 + (int)(threadIdx.x & 31), 143);
      from[i] = (u32)(rows.block(c / 9, 0) - rows.block(0, 0)) * 144u + c % 9 * 16;
    }
  }
  DEV void fetch(const Rows&, u32 to, int block) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < copies; ++i)
      if (i < copies - 1 || lane < 144 - 32 * (copies - 1))
        copy_16(to + (i * 32 + lane) * 16, (i * 32 + lane < 72 ? base : base2) + from[i] + (u32)block * 144u);
  }
};
template <> struct Ring<Q6_K> {  // of each row codes, high bits, sub-scales; then of all rows the words in which their scales are
  enum { pitch = 208, bytes = 16 * (pitch + 4), stages = 2 };
  DEV explicit Ring(const Rows&) {}
  DEV void fetch(const Rows& rows, u32 to, int block) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = i * 4 + lane / 8;
      copy_16(to + r * pitch + lane % 8 * 16, at<const char>(rows.of(i * 4).plane[1]) + rows.block(r, block) * 128 + lane % 8 * 16);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = i * 8 + lane / 4;
      copy_16(to + r * pitch + 128 + lane % 4 * 16, at<const char>(rows.of(i * 8).plane[2]) + rows.block(r, block) * 64 + lane % 4 * 16);
    }
    if (lane >= 16) return;
    copy_16(to + lane * pitch + 192, at<const char>(rows.of(lane).plane[3]) + rows.block(lane, block) * 16);
    copy_4(to + 16 * pitch + lane * 4, at<const char>((rows.of(lane).plane[0] + rows.block(lane, block) * 2) & ~(Address)3));
  }
};

/// Adds the products of a block of 256 in shared memory, `x` that of the activations, whose rows are `pitch` bytes apart.
template <int NT> DEV void block_products(const Ring<Q4_K>&, const Rows&, int, u32 stage, u32 x, int pitch, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 rows = stage + row_of(g) * 144;
  float d[2], m[2];
  u32 sub[2][2], least[2][2];  // [row][half]: scales and minimums of four groups
  const u32 own = 0x4040 + 0x0101 * t;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const uint4 h = load_16(rows + r * 8 * 144);
    d[r] = from_half((u16)h.x);
    m[r] = -8.0f * from_half((u16)(h.x >> 16));  // of means of eight
    sub[r][0] = h.y & 0x3f3f3f3f, sub[r][1] = (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030);
    least[r][0] = h.z & 0x3f3f3f3f, least[r][1] = (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030);
  }
  {
    u32 a[2][2];  // [half][row]: lane t has the minimum of group t of the four, for its four means
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int r = 0; r < 2; ++r) a[h][r] = add2(bytes_1024(least[r][h], own), LESS_1024);
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const uint4 b = load_16(x + (n * 8 + g) * pitch + 512 + t * 16);
      float low[4] = {};
      multiply_half(low, a[0][0], a[0][1], a[0][0], a[0][1], b.x, b.y);
      multiply_half(low, a[1][0], a[1][1], a[1][0], a[1][1], b.z, b.w);
#pragma unroll
      for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(m[i >> 1], low[i], tot[n][i]);
    }
  }
  float acc[NT][4] = {};
  const u32 which = t < 2 ? 0x4040 : 0x4242;
  const u32 column = x + g * pitch + (8 * (t >> 1) + 2 * (t & 1)) * 16;
  const int upper = (t >> 1) * 64;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint4 codes[2];
    u32 scale[2][2], less[2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      codes[r] = load_16(rows + r * 8 * 144 + 16 + h * 64 + t * 16);
      scale[0][r] = add2(bytes_1024(sub[r][h], which), LESS_1024);
      scale[1][r] = fma2(bytes_1024(sub[r][h], which + 0x0101), TWO_SIXTEENTHS, LESS_64);
      less[r] = mul2(scale[0][r], LESS_1024);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 pairs[2][4], low[2][4];  // [row][pair of bytes]
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) pairs[r][i] = bytes_1024(word_of(codes[r], 2 * j + i / 2), i & 1 ? 0x4342 : 0x4140);
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        u32 a[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (nibble == 0) low[r][i] = pairs[r][i] & 0xff0fff0f;
            // What the low nibbles leave of their bytes are the high ones: a difference, where a mask would wait for the pipe of the masks.
            a[r][i] = nibble == 0 ? fma2(low[r][i], scale[0][r], less[r]) : mul2(sub2(pairs[r][i], low[r][i]), scale[1][r]);
          }
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const uint4 b = load_16(column + n * 8 * pitch + h * 256 + (nibble * 64 ^ upper) + j * 16);
          multiply_half(acc[n], a[0][0], a[1][0], a[0][1], a[1][1], b.x, b.y);
          multiply_half(acc[n], a[0][2], a[1][2], a[0][3], a[1][3], b.z, b.w);
        }
      }
    }
  }
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(d[i >> 1], acc[n][i], tot[n][i]);
}

template <int NT> DEV void block_products(const Ring<Q6_K>&, const Rows& rows, int block, u32 stage, u32 x, int pitch, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const u32 row = stage + row_of(g) * 208;
  float acc[NT][4] = {};
  const u32 column = x + g * pitch + 2 * (t & 1) * 16;
  const int upper = (t >> 1) * 64, right = (t >> 1) * 2;
  const u32 which = 0x4040 + 0x0101 * t;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint4 codes[2], high[2];
    u32 scale[2][2], less[2][2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      codes[r] = load_16(row + r * 8 * 208 + h * 64 + t * 16);
      high[r] = load_16(row + r * 8 * 208 + 128 + h * 32 + (t & 1) * 16);
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        scale[nibble][r] = add2(bytes_1024(load_4(row + r * 8 * 208 + 192 + (2 * h + nibble) * 4) ^ 0x80808080, which), LESS_1152);
        less[nibble][r] = mul2(scale[nibble][r], LESS_96);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 pairs[2][4], tops[2][4];  // [row][pair of bytes]: in halves, the high bits in their upper bytes
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          pairs[r][i] = __byte_perm(word_of(codes[r], 2 * j + i / 2), 0, i & 1 ? 0x4342 : 0x4140);
          tops[r][i] = __byte_perm(word_of(high[r], 2 * j + i / 2) >> right, 0, i & 1 ? 0x3424 : 0x1404);
        }
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        u32 a[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const u32 top = merged(nibble ? tops[r][i] >> 4 : tops[r][i], 0x03000300, TWO_64);
            a[r][i] = fma2(merged(nibble ? pairs[r][i] : pairs[r][i] << 4, 0x00f000f0, top), scale[nibble][r], less[nibble][r]);
          }
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const uint4 b = load_16(column + n * 8 * pitch + h * 256 + nibble * 128 + (upper ^ nibble * 64) + j * 16);
          multiply_half(acc[n], a[0][0], a[1][0], a[0][1], a[1][1], b.x, b.y);
          multiply_half(acc[n], a[0][2], a[1][2], a[0][3], a[1][3], b.z, b.w);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int tile_row = r * 8 + row_of(g);
    const u32 word = load_4(stage + 16 * 208 + tile_row * 4);
    const float d = from_half((u16)(rows.block(tile_row, block) & 1 ? word >> 16 : word));
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 2 * r; i < 2 * r + 2; ++i) tot[n][i] = fmaf(d, acc[n][i], tot[n][i]);
  }
}

/// Where things are in shared memory: two chunks of activations, barriers, the rings of the warps, their tail. P: parameters with the shares of
/// MixedParams (tiles to ring).
struct Shared {
  int block, chunk;  // bytes of activations
  template <class P> DEV explicit Shared(const P& p) : block(p.columns * OPERAND_PITCH), chunk(p.ways * p.span * block) {}
  template <class P> DEV char* ring(const P& p, char* memory, int warp) const {
    return memory + 2 * chunk + mixed_barrier_bytes + warp * p.ring;
  }
  template <class P> DEV char* tail(const P& p, char* memory) const { return ring(p, memory, blockDim.x >> 5); }
};

/// All blocks of 256 of a warp, if there are `some`: a chunk has `span` of them for each. x: the operand; 0: `fill`, called by all threads, makes it in
/// shared memory, where one chunk holds it. `ask_more` asks for what else comes from global memory, behind the first chunks.
template <int F, int NT, class P, class Fill, class Ask>
DEV void all_products(const P& p, Address x, const Rows& rows, bool some, char* memory, float (*tot)[4], const Fill& fill, const Ask& ask_more) {
  const int warp = threadIdx.x >> 5, way = warp / p.tiles, blocks = rows.blocks, mine = some ? (blocks - way + p.ways - 1) / p.ways : 0;
  const int of_chunk = p.ways * p.span, chunks = (blocks + of_chunk - 1) / of_chunk, pitch = NT > 1 || p.columns > 1 ? OPERAND_PITCH : 0;
  const Shared shared(p);
  u64* full = reinterpret_cast<u64*>(memory + 2 * shared.chunk);
  const u32 stages = smem(shared.ring(p, memory, warp));
  const Ring<F> ring(rows);
  enum { S = Ring<F>::stages };
  static_assert(S * Ring<F>::bytes <= kquants_ring_bytes, "the host leaves less room");
#pragma unroll
  for (int s = 0; s < S; ++s) {
    if (s < mine) ring.fetch(rows, stages + s * Ring<F>::bytes, s * p.ways + way);
    commit_copies();
  }
  const auto ask = [&](int chunk) {  // one thread
    const int here = min(shared.chunk, blocks * shared.block - chunk * shared.chunk);
    barrier_expect(&full[chunk & 1], here);
    bulk_copy(memory + (chunk & 1) * shared.chunk, at<const char>(x) + (i64)chunk * shared.chunk, here, &full[chunk & 1]);
  };
  if (threadIdx.x == 0) {
    barrier_init(&full[0], 1);
    barrier_init(&full[1], 1);
    fence_barriers();
  }
  wait_previous();
  if (!x) fill();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (!x) barrier_expect(&full[0], 0);
    else
      for (int chunk = 0; chunk < min(chunks, 2); ++chunk) ask(chunk);
  }
  ask_more();
  int s = 0, j = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    barrier_wait(&full[chunk & 1], (u32)(chunk >> 1) & 1u);
#pragma unroll 1
    for (int i = 0; i < p.span && j < mine; ++i, ++j) {
      wait_copies<S - 1>();
      __syncwarp();
      block_products<NT>(ring, rows, j * p.ways + way, stages + s * Ring<F>::bytes,
                         smem(memory) + (chunk & 1) * shared.chunk + (i * p.ways + way) * shared.block, pitch, tot);
      __syncwarp();
      if (j + S < mine) ring.fetch(rows, stages + s * Ring<F>::bytes, (j + S) * p.ways + way);
      commit_copies();
      s = s + 1 == S ? 0 : s + 1;
    }
    if (chunk + 2 >= chunks) continue;
    __syncthreads();
    if (threadIdx.x == 0) ask(chunk + 2);
  }
  commit_copies();
  wait_copies<0>();
}

/// Adds up what the warps that share a tile have: `store(tile of the block, first column, sums, unit)` gets a lane's sums of
/// eight columns; a warp's first unit is its number.
template <int NT, class P, class Store> DEV void join_ways(const P& p, char* memory, const float (*tot)[4], const Store& store) {
  const int warps = blockDim.x >> 5, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  // Each warp's sums lie where its ring was. Then the warps share tiles and columns.
  const Shared shared(p);
  __syncwarp();
#pragma unroll
  for (int n = 0; n < NT; ++n)
    *reinterpret_cast<float4*>(shared.ring(p, memory, warp) + n * 512 + lane * 16) = make_float4(tot[n][0], tot[n][1], tot[n][2], tot[n][3]);
  __syncthreads();
#pragma unroll 1
  for (int unit = warp; unit < p.tiles * NT; unit += warps) {
    const int index = unit / NT, n = unit % NT;
    float sum[4] = {};
#pragma unroll 1
    for (int way = 0; way < p.ways; ++way) {
      const float4 v = *reinterpret_cast<const float4*>(shared.ring(p, memory, way * p.tiles + index) + n * 512 + lane * 16);
      sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
    }
    store(index, n * 8, sum, unit);
  }
}
#endif
