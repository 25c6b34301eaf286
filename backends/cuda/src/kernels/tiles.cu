// y = W x on the matrix units, a block for each 8 rows, for cards with bulk copies (9.0 and newer): block formats times int8 activations
// (m16n8k32), f16 and bf16 times activations of their type (m16n8k16).
//
//   block    8 warps that compute and one that asks for weights; 16 rows of W at a time (under glu 8 of gate and 8 of up); the warps
//            share the blocks of k and add up at the end of each share of k
//   order    that of stream.cu: what one lane sums there is a part of a lane's sums here, by the same steps. So a row has the same bits in both
//   memory   a block asks for all the weights it has room for by bulk copies before it waits for the kernel before it: the memory
//            works through the boundary between two kernels (stages.cuh)
//   banks    rows lie apart by 32 (or 16) bytes more than a multiple of 128: the eight rows that one load reads never share a bank
//   k order  inside 32 elements, lane t has elements 8t to 8t + 7 of both operands: the sum does not care, and the loads are 8 bytes
//            (16 of f16 and bf16)
//   numbers  codes go in as they are, or as 4, 8 or 16 times themselves, whatever needs fewest instructions; sums of 32 products are
//            exact integers, made floats by an addend of 1.5 * 2^23; then scales and minimums in f32
//
// The epilogue is that of gemv.cu.
#include "activation.cuh"
#include "blocks.cuh"
#include "matrix.cuh"
#include "quantise.cuh"
#include "stages.cuh"

#if __CUDA_ARCH__ >= 900
template <int F> struct Layout {
  enum { k = row_pieces(F).elements, b0 = row_pieces(F).bytes[0], b2 = row_pieces(F).bytes[2], pieces = b2 != 0 ? 3 : 2, apart = tiles_apart(F) };
};
template <int F>
DEV constexpr int piece_bytes(int p) {
  constexpr RowPieces pieces = row_pieces(F);
  return p == 0 ? pieces.bytes[0] : p == 1 ? pieces.bytes[1] : p == 2 ? pieces.bytes[2] : pieces.bytes[3];
}
template <int F> DEV int piece_pitch(int p, int units) {
  const int b = piece_bytes<F>(p);
  return tiles_pitch(units * b, b < 16 ? 16 : (int)Layout<F>::apart, b % 16 != 0);
}

template <class T> DEV T shared_load(const char* p) { return *reinterpret_cast<const T*>(p); }

/// Sums of products as floats. A is u8 (UNSIGNED) or s8.
template <bool UNSIGNED> DEV void dot32(float* f, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const int c = 0x4b400000;  // 1.5 * 2^23 as bits: an integer added to it is added to the float
  int d[4];
  multiply_codes32<UNSIGNED>(d, a0, a1, a2, a3, b0, b1, c);
#pragma unroll
  for (int i = 0; i < 4; ++i) f[i] = __int_as_float(d[i]) - 12582912.0f;
}
template <int F> DEV void dot_floats(float* f, const uint4& r0, const uint4& r1, const uint4& b) {
  const u32 a[2][4] = {{r0.x, r1.x, r0.y, r1.y}, {r0.z, r1.z, r0.w, r1.w}}, v[2][2] = {{b.x, b.y}, {b.z, b.w}};
#pragma unroll
  for (int i = 0; i < 4; ++i) f[i] = 0.0f;
#pragma unroll
  for (int h = 0; h < 2; ++h) multiply16<F == F16>(f, a[h], v[h][0], v[h][1]);
}
/// Byte i of a word as a float, without a conversion instruction.
DEV float byte_float(u32 word, int i) { return __int_as_float((int)__byte_perm(word, 0x4b000000, 0x7440 | i)) - 8388608.0f; }
/// What a lane knows of the activations: column g of the right operand for products, columns 2t and 2t + 1 for sums.
struct Columns {
  const char* codes;    // of column g, shifted by the lane's place
  const char* meta[2];  // of columns 2t and 2t + 1
  int t;
};

/// Meta of a group of 32 activations, scale and sum of codes, of both columns. ONE: there is one column, in lanes with t = 0.
template <bool ONE> DEV void load_meta(float2 (&m)[2], const Columns& x, int group) {
  m[0] = shared_load<float2>(x.meta[0] + group * 8);
  m[1] = ONE ? m[0] : shared_load<float2>(x.meta[1] + group * 8);
}
/// Adds s * f * scale for the rows g and g + 8 and both columns, and with MIN n * scale * sum, as item_dot of dot.cuh does.
template <bool ONE, bool MIN>
DEV void add(float* sum, const float* f, const float (&s)[2], const float (&n)[2], const Columns& x, int group) {
  float2 m[2];
  load_meta<ONE>(m, x, group);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (ONE && (i & 1)) continue;
    sum[i] = fmaf(s[i >> 1] * m[i & 1].x, f[i], sum[i]);
    if (MIN) sum[i] = fmaf(n[i >> 1], m[i & 1].x * m[i & 1].y, sum[i]);
  }
}

/// Bits 0 to 3 of h as bit 0 of each byte.
DEV u32 spread(u32 h) { return ((h & 15u) * 0x00204081u) & 0x01010101u; }

/// A lane's sums of rows g and g + 8 and both columns, in four parts. Each is what a lane of stream.cu sums: that of one of four neighbouring
/// blocks of 32, or of one of the four pairs of groups of a block of 256.
struct Sums {
  float of[4][4];
  DEV void clear() {
#pragma unroll
    for (int i = 0; i < 16; ++i) of[i >> 2][i & 3] = 0.0f;
  }
  DEV float all(int i) const { return (of[0][i] + of[1][i]) + (of[2][i] + of[3][i]); }
};

/// A warp's units of a stage, from unit0 of the row to `to`: those that its four lanes of stream.cu have.
template <int F, bool ONE>
DEV void products(const char* stage, int chunk_units, int unit0, int to, const int* shift, const Columns& x, Sums& tot) {
  typedef Layout<F> L;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int pitch0 = piece_pitch<F>(0, chunk_units);
  const char* row0 = stage + g * pitch0;
  const char* row1 = row0 + 8 * pitch0;
  const char* next = stage + ROWS * pitch0;
  if (F == Q4_K || F == Q5_K) {
#pragma unroll 1
    for (int unit = unit0 + (warp - unit0 & 7); unit < to; unit += WARPS) {
      const int u = unit - unit0, group0 = unit * 8;
      const char *b0 = row0 + u * L::b0, *b1 = row1 + u * L::b0;
      const uint4 h0 = shared_load<uint4>(b0), h1 = shared_load<uint4>(b1);
      uint2 q0 = make_uint2(0, 0), q1 = q0;
      if (F == Q5_K) {
        q0 = shared_load<uint2>(b0 + 16 + 8 * t);
        q1 = shared_load<uint2>(b1 + 16 + 8 * t);
      }
      const float d[2] = {from_half((u16)h0.x), from_half((u16)h1.x)}, m[2] = {from_half((u16)(h0.x >> 16)), from_half((u16)(h1.x >> 16))};
      const auto scales = [](const uint4& h, int half) { return half ? (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030) : h.y & 0x3f3f3f3f; };
      const auto least_of = [](const uint4& h, int half) { return half ? (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030) : h.z & 0x3f3f3f3f; };
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const int at_codes = (F == Q4_K ? 16 : 48) + pair * 32 + 8 * t, place = pair % 2 * 2;
        const uint2 c0 = shared_load<uint2>(b0 + at_codes), c1 = shared_load<uint2>(b1 + at_codes);
        const u32 s0 = scales(h0, pair / 2), s1 = scales(h1, pair / 2), l0 = least_of(h0, pair / 2), l1 = least_of(h1, pair / 2);
        float sums[4];  // products of whole numbers below 2^24 are exact
#pragma unroll
        for (int high = 1; high >= 0; --high) {
          const int j = 2 * pair + high;
          u32 a[4] = {c0.x, c1.x, c0.y, c1.y};
          const u32 h[4] = {q0.x, q1.x, q0.y, q1.y};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (F == Q4_K) a[i] &= high ? 0xf0f0f0f0 : 0x0f0f0f0f;  // 16 times the code, if it is a high one
            else a[i] = (a[i] >> 4 * high & 0x0f0f0f0f) | (h[i] >> j & 0x01010101) << 4;
          }
          const uint2 b = shared_load<uint2>(x.codes + (group0 + j) * 32 + 8 * t);
          float f[4];
          dot32<true>(f, a[0], a[1], a[2], a[3], b.x, b.y);
          const float whole = F == Q4_K && high ? 0.0625f : 1.0f, s[2] = {whole * byte_float(s0, place + high), whole * byte_float(s1, place + high)};
          float2 m[2];
          load_meta<ONE>(m, x, group0 + j);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (!ONE || !(i & 1)) {
              const float product = s[i >> 1] * f[i];
              sums[i] = high ? product * m[i & 1].x : fmaf(product, m[i & 1].x, sums[i]);
            }
        }
        float2 xa[2], xb[2];
        load_meta<ONE>(xa, x, group0 + 2 * pair);
        load_meta<ONE>(xb, x, group0 + 2 * pair + 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = i >> 1, c = i & 1;
          if (ONE && c) continue;
          const u32 least_codes = r ? l1 : l0;
          const float least = fmaf(byte_float(least_codes, place), xa[c].x * xa[c].y, byte_float(least_codes, place + 1) * (xb[c].x * xb[c].y));
          tot.of[pair][i] = fmaf(d[r], sums[i], fmaf(-m[r], least, tot.of[pair][i]));
        }
      }
    }
  } else if (F == Q6_K) {
    const int pitch1 = piece_pitch<F>(1, chunk_units), pitch2 = piece_pitch<F>(2, chunk_units), pitch3 = piece_pitch<F>(3, chunk_units);
    const char *low = next + g * pitch1 + 4 * t, *top = next + ROWS * pitch1 + g * pitch2 + 4 * t;
    const char* scales = next + ROWS * (pitch1 + pitch2) + g * pitch3;
#pragma unroll 1
    for (int unit = unit0 + (warp - unit0 & 7); unit < to; unit += WARPS) {
      const int u = unit - unit0;
      const float d[2] = {0.25f * from_half(shared_load<u16>(row0 + shift[0] + u * 2)),
                          0.25f * from_half(shared_load<u16>(row1 + shift[1] + u * 2))};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const uint2 k0 = shared_load<uint2>(scales + u * 16 + n * 8), k1 = shared_load<uint2>(scales + 8 * pitch3 + u * 16 + n * 8);
        u32 h0[2], h1[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          h0[half] = shared_load<u32>(top + u * 64 + n * 32 + half * 16) ^ 0xaaaaaaaa;
          h1[half] = shared_load<u32>(top + 8 * pitch2 + u * 64 + n * 32 + half * 16) ^ 0xaaaaaaaa;
        }
#pragma unroll
        for (int gg = 0; gg < 2; ++gg) {
          u32 l0[2], l1[2];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            l0[half] = shared_load<u32>(low + u * 128 + n * 64 + gg * 32 + half * 16);
            l1[half] = shared_load<u32>(low + 8 * pitch1 + u * 128 + n * 64 + gg * 32 + half * 16);
          }
          const int group = unit * 8 + n * 4 + gg;
          int r[2][4] = {};  // of the low group and of the high one, 64 elements on: whole numbers, above 2^24 too
#pragma unroll
          for (int high = 0; high < 2; ++high) {
            const int left = 6 - 4 * high - 2 * gg;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const u32 a0 = ((high ? l0[half] >> 2 : l0[half] << 2) & 0x3c3c3c3c) | (h0[half] << left & 0xc0c0c0c0);
              const u32 a1 = ((high ? l1[half] >> 2 : l1[half] << 2) & 0x3c3c3c3c) | (h1[half] << left & 0xc0c0c0c0);
              int q[4];
              multiply_codes16(q, a0, a1, shared_load<u32>(x.codes + (group + 2 * high) * 32 + half * 16 + 4 * t));
              const int place = 8 * (gg * 2 + half), s0 = (i8)((high ? k0.y : k0.x) >> place), s1 = (i8)((high ? k1.y : k1.x) >> place);
#pragma unroll
              for (int i = 0; i < 4; ++i)
                if (!ONE || !(i & 1)) r[high][i] += (i < 2 ? s0 : s1) * q[i];
            }
          }
          float2 xa[2], xb[2];
          load_meta<ONE>(xa, x, group);
          load_meta<ONE>(xb, x, group + 2);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (!ONE || !(i & 1)) {
              float& sum = tot.of[n * 2 + gg][i];
              sum = fmaf(d[i >> 1], fmaf((float)r[0][i], xa[i & 1].x, (float)r[1][i] * xb[i & 1].x), sum);
            }
        }
      }
    }
  } else {
    const int pitch1 = piece_pitch<F>(1, chunk_units), pitch2 = L::pieces > 2 ? piece_pitch<F>(2, chunk_units) : 0;
    const char* codes = next + g * pitch1;
    const char* bits = next + ROWS * pitch1 + g * pitch2;
#pragma unroll 1
    for (int four = unit0 + 4 * (warp - (unit0 >> 2) & 7); four < to; four += 4 * WARPS)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int group = four + n, u = group - unit0;
      if (group >= to) break;
      if (F == F16 || F == BF16) {
        const uint4 c0 = shared_load<uint4>(row0 + u * 64 + 16 * t), c1 = shared_load<uint4>(row1 + u * 64 + 16 * t);
        float f[4];
        dot_floats<F>(f, c0, c1, shared_load<uint4>(x.codes + group * 64 + 16 * t));
        add<ONE, false>(tot.of[n], f, {1.0f, 1.0f}, {}, x, group);
        continue;
      }
      u32 a[4], b[2];
      if (F == Q8_0) {
        const uint2 c0 = shared_load<uint2>(codes + u * 32 + 8 * t), c1 = shared_load<uint2>(codes + 8 * pitch1 + u * 32 + 8 * t);
        a[0] = c0.x, a[1] = c1.x, a[2] = c0.y, a[3] = c1.y;
        const uint2 v = shared_load<uint2>(x.codes + group * 32 + 8 * t);
        b[0] = v.x, b[1] = v.y;
      } else {
        const u32 c0 = shared_load<u32>(codes + u * 16 + 4 * t), c1 = shared_load<u32>(codes + 8 * pitch1 + u * 16 + 4 * t);
        b[0] = shared_load<u32>(x.codes + group * 32 + 4 * t);
        b[1] = shared_load<u32>(x.codes + group * 32 + 16 + 4 * t);
        if (F == Q4_0) {
          a[0] = (c0 << 4 & 0xf0f0f0f0) ^ 0x80808080, a[1] = (c1 << 4 & 0xf0f0f0f0) ^ 0x80808080;
          a[2] = (c0 & 0xf0f0f0f0) ^ 0x80808080, a[3] = (c1 & 0xf0f0f0f0) ^ 0x80808080;
        } else if (F == Q4_1) {
          a[0] = c0 & 0x0f0f0f0f, a[1] = c1 & 0x0f0f0f0f, a[2] = c0 >> 4 & 0x0f0f0f0f, a[3] = c1 >> 4 & 0x0f0f0f0f;
        } else {
          const u32 h0 = shared_load<u32>(bits + shift[2] + u * 4) >> 4 * t,
                    h1 = shared_load<u32>(bits + 8 * pitch2 + shift[3] + u * 4) >> 4 * t;
          if (F == Q5_0) {  // 8 times the code less 16
            a[0] = ((c0 << 3 & 0x78787878) | spread(h0) << 7) ^ 0x80808080, a[1] = ((c1 << 3 & 0x78787878) | spread(h1) << 7) ^ 0x80808080;
            a[2] = ((c0 >> 1 & 0x78787878) | spread(h0 >> 16) << 7) ^ 0x80808080;
            a[3] = ((c1 >> 1 & 0x78787878) | spread(h1 >> 16) << 7) ^ 0x80808080;
          } else {
            a[0] = (c0 & 0x0f0f0f0f) | spread(h0) << 4, a[1] = (c1 & 0x0f0f0f0f) | spread(h1) << 4;
            a[2] = (c0 >> 4 & 0x0f0f0f0f) | spread(h0 >> 16) << 4, a[3] = (c1 >> 4 & 0x0f0f0f0f) | spread(h1 >> 16) << 4;
          }
        }
      }
      float f[4];
      dot32<F == Q4_1 || F == Q5_1>(f, a[0], a[1], a[2], a[3], b[0], b[1]);
      if (F == Q4_1 || F == Q5_1) {
        const u32 k0 = shared_load<u32>(row0 + shift[0] + u * 4), k1 = shared_load<u32>(row1 + shift[1] + u * 4);
        add<ONE, true>(tot.of[n], f, {from_half((u16)k0), from_half((u16)k1)}, {from_half((u16)(k0 >> 16)), from_half((u16)(k1 >> 16))}, x, group);
      } else {
        if (F != Q8_0)
#pragma unroll
          for (int i = 0; i < 4; ++i) f[i] *= F == Q4_0 ? 0.0625f : 0.125f;  // whole numbers again
        add<ONE, false>(tot.of[n], f, {from_half(shared_load<u16>(row0 + shift[0] + u * 2)), from_half(shared_load<u16>(row1 + shift[1] + u * 2))}, {}, x,
                        group);
      }
    }
  }
}

/// Where rows g and g + 8 start in pieces 0 and 2, whose rows need not start at multiples of 16.
template <int F> DEV void shifts_of(const TilesParams& p, int part, int first, int unit0, int* shift) {
  typedef Layout<F> L;
  const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    i64 row;
    rows_of(p, part, first, g + 8 * i, row);
    const i64 block = row * (p.g.k / L::k) + unit0;
    shift[i] = (int)(block * L::b0 & 15);
    shift[2 + i] = L::pieces > 2 ? (int)(block * L::b2 & 15) : 0;
  }
}

#define LAST_OR_FLOATS(FORMAT) FORMAT_CASE(F16) FORMAT_CASE(BF16) FORMAT_LAST(FORMAT)
#define FOR_FORMAT(dtype) \
  switch (dtype) { QUERN_CUDA_FAST_FORMATS(FORMAT_CASE, LAST_OR_FLOATS) }

template <int F, bool ONE>
DEV void stage_products(const TilesParams& p, int part, int first, int chunk, const char* stage, const Columns& x, Sums& tot) {
  typedef Layout<F> L;
  const int chunk_units = p.chunk / L::k, unit0 = chunk * chunk_units;
  int shift[4];
  shifts_of<F>(p, part, first, unit0, shift);
  products<F, ONE>(stage, chunk_units, unit0, min(unit0 + chunk_units, p.g.k / L::k), shift, x, tot);
}
/// What the warps have of one output: neighbours first, as sum_of_lanes of dot.cuh.
DEV float sum_of_warps(const float (&partial)[WARPS][8][ROWS], int column, int row) {
  float v[WARPS];
#pragma unroll
  for (int w = 0; w < WARPS; ++w) v[w] = partial[w][column][row];
#pragma unroll
  for (int apart = 1; apart < WARPS; apart *= 2)
#pragma unroll
    for (int w = 0; w < WARPS; w += 2 * apart) v[w] += v[w + apart];
  return v[0];
}
struct TilesShared {
  u64 full[tiles_most_stages], empty[tiles_most_stages];
  float factor[8];
  float partial[2][WARPS][8][ROWS];  // [turn][warp][column][row]: one barrier a turn keeps two turns apart
  float made[8][32];
  int rows;
  float sum[8][ROWS];  // of the shares of k until now
};
static_assert(sizeof(TilesShared) <= tiles_fixed_bytes, "the host leaves less room");

/// The first row of activations of a block: blocks of the same weights run side by side, so that L2 has what all but one of them read.
DEV int first_row() { return blockIdx.x * 8; }

template <bool ONE> DEV void tiles(const TilesParams& p, char* memory) {
  TilesShared& s = *reinterpret_cast<TilesShared*>(memory);
  const GemvParams& g = p.g;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, t = ONE ? 1 : min(8, g.t - first_row());
  const int row_bytes = g.x.dtype ? 2 * g.k : g.k, x_pitch = tiles_pitch(row_bytes, g.x.dtype ? 64 : 32, false), meta_pitch = g.k / 4 + 16;
  char* codes = memory + (sizeof(TilesShared) + 127) / 128 * 128;
  char* meta = codes + t * x_pitch;
  char* stages = memory + p.stage_offset;
  const int steps = p.subtiles * p.chunks, first_tile = blockIdx.y * p.subtiles;
  start_next();
  init_stages(p.stages, s.full, s.empty);
  if (warp == WARPS) return ask_all(p, first_tile, p.subtiles, p.subtiles, 0, stages, s.full, s.empty);
  // What does not come from the kernel before: for the epilogue.
  const float out_weight =
      g.out.codes && g.out_weight && warp < t ? at<const float>(g.out_weight)[blockIdx.y * 32 + lane] + g.out_offset : 1.0f;
  wait_previous();
  float square_sum = 0.0f;
  if (warp < t && g.x.sums) {
    const float* sums = at<const float>(g.x.sums) + (i64)(first_row() + warp) * g.x.sum_count;
#pragma unroll 4
    for (int i = lane; i < g.x.sum_count; i += 32) square_sum += sums[i];
  }
  const int code_chunks = row_bytes / 16, meta_chunks = g.k / 64;
#pragma unroll 1
  for (int c = 0; c < t; ++c) {
    const i64 of = first_row() + c;
    const uint4 *from = at<const uint4>(g.x.codes) + of * code_chunks, *meta_from = at<const uint4>(g.x.meta) + of * meta_chunks;
#pragma unroll 2
    for (int i = threadIdx.x; i < code_chunks + meta_chunks; i += THREADS) {
      const bool is_meta = i >= code_chunks;
      const uint4 v = is_meta ? meta_from[i - code_chunks] : from[i];
      *reinterpret_cast<uint4*>(is_meta ? meta + c * meta_pitch + (i - code_chunks) * 16 : codes + c * x_pitch + i * 16) = v;
    }
  }
  if (warp < t) {
    square_sum = warp_sum(square_sum);
    if (lane == 0) s.factor[warp] = g.x.sums ? 1.0f / sqrtf(square_sum / (float)g.k + g.x.epsilon) : 1.0f;
  }
  if (threadIdx.x == 0) s.rows = t;
  meet<THREADS>();
  Columns x;
  x.codes = codes + (ONE ? 0 : min(lane >> 2, t - 1)) * x_pitch;
  x.meta[0] = meta + (ONE ? 0 : min((lane & 3) * 2, t - 1)) * meta_pitch;
  x.meta[1] = meta + (ONE ? 0 : min((lane & 3) * 2 + 1, t - 1)) * meta_pitch;
  Sums tot;
  tot.clear();
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    int first;
    const int part = part_of(g, first_tile + step / p.chunks, first), slot = step % p.stages, chunk = step % p.chunks;
    const bool ends = chunk == p.chunks - 1;
    const GemvPart& q = g.part[part];
    // The epilogue's operands, asked for before the products.
    const int r = threadIdx.x % ROWS, c = threadIdx.x / ROWS, output = first + r;
    const bool makes = ends && c < (ONE ? 1 : s.rows) && output < q.rows && !(g.glu && r >= 8);
    float addend = 0.0f;
    if (makes && q.bias) addend = at<const float>(q.bias)[output];
    if (makes && g.residual) addend += at<const float>(g.residual)[(i64)(first_row() + c) * q.rows + output];
    if (makes && g.residual2) addend += at<const float>(g.residual2)[(i64)(first_row() + c) * q.rows + output];
    barrier_wait(&s.full[slot], (u32)(step / p.stages) & 1u);
#define CALL(F) stage_products<F, ONE>(p, part, first, chunk, stages + slot * p.stage_bytes, x, tot)
    FOR_FORMAT(g.part[part].w.dtype)
#undef CALL
    __syncwarp();
    warp_arrive(&s.empty[slot], lane);
    // Stages lie in one share of k each. Its sum is ended with the last of them.
    const int of_share = p.share / p.chunk;
    if (!ends && (chunk + 1) % of_share != 0) continue;
    const int row = lane >> 2, column = (lane & 3) * 2;
    auto& partial = s.partial[step / p.chunks * ((p.chunks - 1) / of_share + 1) + chunk / of_share & 1];  // in turn
    if (ONE ? column == 0 : column < s.rows) {
      partial[warp][column][row] = tot.all(0);
      partial[warp][column][row + 8] = tot.all(2);
      if (!ONE) {
        partial[warp][column + 1][row] = tot.all(1);
        partial[warp][column + 1][row + 8] = tot.all(3);
      }
    }
    tot.clear();
    meet<THREADS>();
    if (c < (ONE ? 1 : s.rows)) {
      const float v = sum_of_warps(partial, c, r);
      s.sum[c][r] = chunk < of_share ? v : s.sum[c][r] + v;
    }
    if (!ends) continue;
    __syncwarp();  // rows r and r + 8 are of one warp
    if (!makes) continue;
    float y = __fmul_rn(s.sum[c][r], s.factor[c]);  // rounded here for one row and for more: their bits are the same
    if (g.glu) y = __fmul_rn(gate_value(y, g.activation), __fmul_rn(s.sum[c][r + 8], s.factor[c]));
    y += addend;
    if (!g.glu && g.activation) y = other_gate(y, g.activation);
    if (g.out.codes) s.made[c][output % 32] = y;
    if (q.y) at<float>(q.y)[(i64)(first_row() + c) * q.rows + output] = y;
  }
  if (!g.out.codes) return;
  meet<THREADS>();
  const int groups = g.part[0].rows / 32;
  if (warp < t) {
    const float v = s.made[warp][lane];
    quantise32(v * out_weight, g.out, (i64)(first_row() + warp) * groups + blockIdx.y, lane);
    if (g.out.sums) {
      const float squares = warp_sum_of_squares(v);
      if (lane == 0) at<float>(g.out.sums)[(i64)(first_row() + warp) * g.out.sum_count + blockIdx.y] = squares;
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(288, 2) tiles_1(const __grid_constant__ TilesParams p) {
#if __CUDA_ARCH__ >= 900
  SHARED_BYTES(memory);
  tiles<true>(p, memory);
#endif
}
extern "C" __global__ void __launch_bounds__(288, 2) tiles_8(const __grid_constant__ TilesParams p) {
#if __CUDA_ARCH__ >= 900
  SHARED_BYTES(memory);
  tiles<false>(p, memory);
#endif
}
