// y = W x for 1 to 32 rows of 16-bit activations on the matrix units, weights in their own format, for cards with bulk copies (9.0
// and newer).
//
//   numbers  f16 and bf16 weights as they are. Of Q4_K and Q6_K, times f16, A is sub-scale x code: of Q4_K exact (at most 63 x 15), of Q6_K rounded where it is above 2048. The scale of 256, and the
//            minimums, whose products take means of eight activations, are applied to the sums in f32
//   weights  each lane reads 16 bytes of a row at a time from memory into registers, a block of 256 ahead: no two lanes read the same codes
//   k order  inside a step of 16, lane t has those four elements of both operands that it has read: the sum does not care
//   block    a warp has 16 rows of W (under glu 8 of gate and 8 of up), or `ways` warps share them along k and add up at the end; all rows of
//            the block go through k together, since they share the activations, which come in chunks, two of them under way
//   columns  activations come in chunks, two of them under way, as they lie in memory (operand.cuh); one row comes as a whole, and all eight
//            columns of the matrix units read it; a block may make it itself from f32, with a norm (raw)
#include "mixed.hpp"
#include "bulk.cuh"
#include "operand.cuh"

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
DEV void multiply_half(float* c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
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

/// What a lane has of a block of 256 in rows g and g + 8: each half of the codes is loaded anew as soon as it is used up.
template <int F> struct Held { uint4 codes[2][2][4]; };  // floats: [half][row][32 elements]
template <> struct Held<Q4_K> { uint4 codes[2][2], head[2]; };                         // [half][row]
template <> struct Held<Q6_K> { uint4 codes[2][2], high[2][2], sub[2]; u32 scale[2]; };  // [half][row]

/// Where a lane's part of block 0 of its two rows is.
struct Places {
  const char *codes[2], *high[2], *head[2], *scale[2];
};
template <int F> DEV Places places_of(const Blocks& w, i64 block, i64 block2) {
  const int t = threadIdx.x & 3;
  const i64 blocks[2] = {block, block2};
  Places l;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const i64 b = blocks[r];
    if (F == F16 || F == BF16) {
      l.codes[r] = at<const char>(w.plane[0]) + b * 512 + t * 16;
      continue;
    }
    l.codes[r] = at<const char>(w.plane[1]) + b * w.stride[1] + t * 16;
    l.head[r] = F == Q4_K ? at<const char>(w.plane[0]) + b * w.stride[0] : at<const char>(w.plane[3]) + b * w.stride[3];
    l.high[r] = at<const char>(w.plane[2]) + b * w.stride[2] + (t & 1) * 16;
    l.scale[r] = at<const char>(w.plane[0]) + b * w.stride[0];
  }
  return l;
}
template <int HALF, int F> DEV void load_half(Held<F>& w, const Places& l, int block) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const char* p = l.codes[r] + (i64)block * 512;
    w.codes[HALF][r][0] = load_weights<HALF * 256>(p);
    w.codes[HALF][r][1] = load_weights<HALF * 256 + 64>(p);
    w.codes[HALF][r][2] = load_weights<HALF * 256 + 128>(p);
    w.codes[HALF][r][3] = load_weights<HALF * 256 + 192>(p);
  }
}
template <int F> DEV void load_head(Held<F>&, const Places&, int) {}
template <int HALF> DEV void load_half(Held<Q4_K>& w, const Places& l, int block) {
#pragma unroll
  for (int r = 0; r < 2; ++r) w.codes[HALF][r] = load_weights<HALF * 64>(l.codes[r] + block * 144);
}
DEV void load_head(Held<Q4_K>& w, const Places& l, int block) {
#pragma unroll
  for (int r = 0; r < 2; ++r) w.head[r] = load_weights<0>(l.head[r] + block * 144);
}
template <int HALF> DEV void load_half(Held<Q6_K>& w, const Places& l, int block) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    w.codes[HALF][r] = load_weights<HALF * 64>(l.codes[r] + block * 128);
    w.high[HALF][r] = load_weights<HALF * 32>(l.high[r] + block * 64);
  }
}
DEV void load_head(Held<Q6_K>& w, const Places& l, int block) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    w.sub[r] = load_weights<0>(l.head[r] + block * 16);
    w.scale[r] = *reinterpret_cast<const u16*>(l.scale[r] + block * 2);
  }
}
DEV u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

/// A chunk of activations in shared memory: bytes from one block of 256 to the next and from one column to the next.
struct Seen {
  const char* x;
  int block, pitch;
};

/// Adds the products of a block of 256, `place` of the chunk, and loads block `next`: always, a condition would have the loads waited for.
template <int NT, int F> DEV void block_products(Held<F>& w, const Places& l, int next, const Seen& s, int place, float (*tot)[4]) {
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
template <int NT> DEV void block_products(Held<Q4_K>& w, const Places& l, int next, const Seen& s, int place, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  u32 sub[2][2], least[2][2];  // [row][half]: scales and minimums of four groups
  float d[2], m[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const uint4 h = w.head[r];
    d[r] = from_half((u16)h.x);
    m[r] = 8.0f * from_half((u16)(h.x >> 16));  // of means of eight
    sub[r][0] = h.y & 0x3f3f3f3f, sub[r][1] = (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030);
    least[r][0] = h.z & 0x3f3f3f3f, least[r][1] = (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030);
  }
  load_head(w, l, next);
  {
    u32 a[2][4];  // [half][of the matrix product]
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int i = 0; i < 4; ++i) a[h][i] = add2(bytes_1024(least[i & 1][h], i < 2 ? 0x4140 : 0x4342), LESS_1024);
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const uint4 b = *reinterpret_cast<const uint4*>(s.x + place * s.block + (n * 8 + g) * s.pitch + 512 + t * 16);
      float low[4] = {};
      multiply_half(low, a[0][0], a[0][1], a[0][2], a[0][3], b.x, b.y);
      multiply_half(low, a[1][0], a[1][1], a[1][2], a[1][3], b.z, b.w);
#pragma unroll
      for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(-m[i >> 1], low[i], tot[n][i]);
    }
  }
  float acc[NT][4] = {};
  const u32 which = t < 2 ? 0x4040 : 0x4242;
  const char* column = s.x + place * s.block + g * s.pitch + (8 * (t >> 1) + 2 * (t & 1)) * 16;
  const int upper = (t >> 1) * 64;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    u32 scale[2][2], less[2][2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      scale[0][r] = add2(bytes_1024(sub[r][h], which), LESS_1024);
      scale[1][r] = fma2(bytes_1024(sub[r][h], which + 0x0101), TWO_SIXTEENTHS, LESS_64);
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) less[nibble][r] = mul2(scale[nibble][r], LESS_1024);
    }
    const uint4 (&codes)[2] = w.codes[h];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u32 pairs[2][4];  // [row][pair of bytes]
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
          for (int i = 0; i < 4; ++i)
            a[r][i] = fma2(pairs[r][i] & (nibble ? 0xfff0fff0 : 0xff0fff0f), scale[nibble][r], less[nibble][r]);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const uint4 b = load_activations(column + n * 8 * s.pitch + h * 256 + (nibble * 64 ^ upper) + j * 16);
          multiply_half(acc[n], a[0][0], a[1][0], a[0][1], a[1][1], b.x, b.y);
          multiply_half(acc[n], a[0][2], a[1][2], a[0][3], a[1][3], b.z, b.w);
        }
      }
    }
    h == 0 ? load_half<0>(w, l, next) : load_half<1>(w, l, next);
  }
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(d[i >> 1], acc[n][i], tot[n][i]);
}

template <int NT> DEV void block_products(Held<Q6_K>& w, const Places& l, int next, const Seen& s, int place, float (*tot)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const uint4 subs[2] = {w.sub[0], w.sub[1]};
  const float d[2] = {from_half((u16)w.scale[0]), from_half((u16)w.scale[1])};
  load_head(w, l, next);
  float acc[NT][4] = {};
  const char* column = s.x + place * s.block + g * s.pitch + 2 * (t & 1) * 16;
  const int upper = (t >> 1) * 64, right = (t >> 1) * 2;
  const u32 which = 0x4040 + 0x0101 * t;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    u32 scale[2][2], less[2][2];  // [nibble][row]
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int nibble = 0; nibble < 2; ++nibble) {
        scale[nibble][r] = add2(bytes_1024(word_of(subs[r], 2 * h + nibble) ^ 0x80808080, which), LESS_1152);
        less[nibble][r] = mul2(scale[nibble][r], LESS_96);
      }
    const uint4 (&codes)[2] = w.codes[h], (&high)[2] = w.high[h];
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
          const uint4 b = load_activations(column + n * 8 * s.pitch + h * 256 + nibble * 128 + (upper ^ nibble * 64) + j * 16);
          multiply_half(acc[n], a[0][0], a[1][0], a[0][1], a[1][1], b.x, b.y);
          multiply_half(acc[n], a[0][2], a[1][2], a[0][3], a[1][3], b.z, b.w);
        }
      }
    }
    h == 0 ? load_half<0>(w, l, next) : load_half<1>(w, l, next);
  }
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) tot[n][i] = fmaf(d[i >> 1], acc[n][i], tot[n][i]);
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
  Places l = places_of<F>(w, row * own.blocks, row * own.blocks);
  {
    const Places second = places_of<F>(w2, row2 * own.blocks, row2 * own.blocks);
    l.codes[1] = second.codes[1], l.head[1] = second.head[1], l.high[1] = second.high[1], l.scale[1] = second.scale[1];
  }
  const int first = own.slice * p.span;
  Held<F> held;
  if (first < own.blocks) {
    load_head(held, l, first);
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
      if (block < own.blocks) block_products<NT>(held, l, then < own.blocks ? then : block, seen, first + i, tot);
    }
    if (chunk + 2 >= chunks) continue;
    __syncthreads();
    if (threadIdx.x == 0) ask(chunk + 2);
  }
}

template <int NT, bool FLOATS> DEV void mixed(const MixedParams& p, char* memory) {
  if (!p.settles) start_next();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, tile = warp % p.tiles;
  Share own{warp / p.tiles, p.k / 256};
  int part = 0, first = (blockIdx.x * p.tiles + tile) * (p.glu ? 8 : 16);
  if (!p.glu)
    while (part < p.parts - 1 && first >= p.part[part].rows) first -= p.part[part++].rows;
  const MixedPart &q = p.part[part], &q2 = p.part[p.glu ? 1 : part];
  const int last = q.rows - 1;
  const i64 row = min(first + g, last), row2 = min(first + (p.glu ? g : g + 8), last);
  float tot[NT][4] = {};
  constexpr int first_format = FLOATS ? F16 : Q4_K, other_format = FLOATS ? BF16 : Q6_K;
  if (q.w.dtype == first_format) all_products<first_format, NT>(p, own, q.w, row, q2.w, row2, memory, tot);
  else all_products<other_format, NT>(p, own, q.w, row, q2.w, row2, memory, tot);
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
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = n * 8 + 2 * t + (i & 1), output = first + g + (i >> 1) * 8;
      if (p.glu) {
        if (i >= 2) continue;
        const float gate = tot[n][i] * p.alpha, up = tot[n][i + 2] * p.alpha, y = output > last ? 0.0f : p.glu_scale * (SILU(gate) * up);
        float mean = 0.125f * y;  // the tile's eight outputs are a chunk of the operand
#pragma unroll
        for (int o = 4; o < 32; o <<= 1) mean += __shfl_xor_sync(~0u, mean, o);
        if (column >= p.t || output > last) continue;
        char* block = at<char>(p.glu_y) + operand_row(column, p.columns, 1) + (i64)(output >> 8) * p.columns * OPERAND_PITCH;
        const int e = output & 255, c = e >> 3;
        *reinterpret_cast<u16*>(block + swizzled_chunk(c) + (e & 7) * 2) = p.half ? to_half(fminf(fmaxf(y, -65504.0f), 65504.0f)) : to_bf16(y);
        if (g == 0) *reinterpret_cast<u16*>(block + 512 + (c & 3) * 16 + (c >> 2) * 2) = to_half(fminf(fmaxf(mean, -65504.0f), 65504.0f));
        continue;
      }
      if (column >= p.t || output > last) continue;
      float y = tot[n][i] * p.alpha;
      if (q.bias) y += at<const float>(q.bias)[output];
      if (p.residual) y += at<const float>(p.residual)[(i64)column * q.row + output];
      at<float>(q.y)[(i64)column * q.row + output] = y;
    }
}
#endif

#if __CUDA_ARCH__ >= 900
#define MIXED(NT, FLOATS) \
  extern __shared__ __align__(128) char memory[]; \
  mixed<NT, FLOATS>(p, memory);
#else
#define MIXED(NT, FLOATS)
#endif
#define KERNELS(columns, NT) \
  extern "C" __global__ void __launch_bounds__(384, 1) mixed_##columns(const __grid_constant__ MixedParams p) { MIXED(NT, false) } \
  extern "C" __global__ void __launch_bounds__(384, 1) mixed_floats_##columns(const __grid_constant__ MixedParams p) { MIXED(NT, true) }
KERNELS(8, 1)
KERNELS(16, 2)
KERNELS(32, 4)
