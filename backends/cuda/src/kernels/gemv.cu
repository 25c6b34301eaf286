// y = W x for 1 to 8 rows of int8 activations, weights in any block format, sums in i32 within a group and f32 over groups.
//
//   block    up to 16 warps, each two rows of W at once (under glu a row of gate and one of up), in rounds; 32 outputs a block where
//            it quantises them
//   lanes    lane l takes chunks l, l + 32, ...: 32 weights whose codes are 16 consecutive bytes (32 for Q8_0)
//   loads    of all rows and unrolled steps before their use: 2 rows x 4 steps x 16 bytes a lane = 64 KiB in flight a block
//   order    a row's chunks are summed in one order whatever the number of activation rows: the bits do not depend on the batch
//
// The epilogue normalises (the factor of an rms_norm that was folded into the activations), adds bias and residual, applies
// SwiGLU, and quantises its 32 outputs for the next product together with the sum of squares that its norm needs.
#include "blocks.cuh"
#include "quantise.cuh"

struct Raw {
  uint4 codes;   // 16 bytes
  uint4 second;  // header of Q4_K and Q5_K; the other 16 codes of Q8_0; high bits of Q6_K
  uint4 third;   // high bits of Q5_K
  u32 scales;    // d and m; d
  u32 high;      // high bits of Q5_0 and Q5_1; two sub-scales of Q6_K
};

/// Two sixteens of one chunk: elements first .. first + 15 and second .. second + 15 of the row.
template <int F> DEV void offsets(int chunk, int& first, int& second) {
  if (F == Q4_K || F == Q5_K) {
    first = chunk / 8 * 256 + chunk % 8 / 2 * 64 + (chunk & 1) * 16;
    second = first + 32;
  } else if (F == Q6_K) {
    first = chunk / 8 * 256 + chunk % 8 / 4 * 128 + chunk % 4 * 16;
    second = first + 64;
  } else {
    first = chunk * 32;
    second = first + 16;
  }
}

DEV uint4 stream_codes(const Blocks& w, int piece, i64 block, int offset) {
  const char* p = at<const char>(w.plane[piece]) + block * w.stride[piece] + offset;
  return w.aligned ? load_stream(p) : load_pairs(p);
}

template <int F> DEV Raw load(const Blocks& w, i64 row_blocks, int chunk) {
  Raw r;
  if (F == Q4_K || F == Q5_K) {
    const i64 block = row_blocks + chunk / 8;
    const int c = chunk % 8;
    r.codes = load_stream(at<const char>(w.plane[1]) + block * w.stride[1] + c * 16);
    r.second = load_stream(at<const char>(w.plane[0]) + block * w.stride[0]);
    if (F == Q5_K) r.third = load_stream(at<const char>(w.plane[2]) + block * w.stride[2] + (c & 1) * 16);
  } else if (F == Q6_K) {
    const i64 block = row_blocks + chunk / 8;
    const int c = chunk % 8;
    r.codes = stream_codes(w, 1, block, c * 16);
    r.second = stream_codes(w, 2, block, c / 4 * 32 + (c & 1) * 16);
    const i8* s = at<const i8>(w.plane[3]) + block * w.stride[3] + c / 4 * 8 + c % 4;
    r.high = (u32)(u8)s[0] | (u32)(u8)s[4] << 8;
    r.scales = reinterpret_cast<const u16*>(at<const char>(w.plane[0]) + block * w.stride[0])[0];
  } else {
    const i64 block = row_blocks + chunk;
    r.codes = stream_codes(w, 1, block, 0);
    if (F == Q8_0) r.second = stream_codes(w, 1, block, 16);
    const u16* s = reinterpret_cast<const u16*>(at<const char>(w.plane[0]) + block * w.stride[0]);
    r.scales = F == Q4_1 || F == Q5_1 ? s[0] | (u32)s[1] << 16 : s[0];
    if (F == Q5_0 || F == Q5_1) r.high = load_word(w, 2, block);
  }
  return r;
}

DEV int dot16(const uint4& a, const uint4& b) {
  int s = __dp4a((int)a.x, (int)b.x, 0);
  s = __dp4a((int)a.y, (int)b.y, s);
  s = __dp4a((int)a.z, (int)b.z, s);
  return __dp4a((int)a.w, (int)b.w, s);
}
DEV uint4 low_nibbles(const uint4& v) { return make_uint4(v.x & 0x0f0f0f0f, v.y & 0x0f0f0f0f, v.z & 0x0f0f0f0f, v.w & 0x0f0f0f0f); }
DEV uint4 high_nibbles(const uint4& v) {
  return make_uint4(v.x >> 4 & 0x0f0f0f0f, v.y >> 4 & 0x0f0f0f0f, v.z >> 4 & 0x0f0f0f0f, v.w >> 4 & 0x0f0f0f0f);
}
/// v with bit `bit` of each byte of h as bit 4.
DEV uint4 with_bit(const uint4& v, const uint4& h, int bit) {
  return make_uint4(v.x | (h.x >> bit & 0x01010101) << 4, v.y | (h.y >> bit & 0x01010101) << 4, v.z | (h.z >> bit & 0x01010101) << 4,
                    v.w | (h.w >> bit & 0x01010101) << 4);
}
DEV uint4 with_two_bits(const uint4& v, const uint4& h, int bit) {
  return make_uint4(v.x | (h.x >> bit & 0x03030303) << 4, v.y | (h.y >> bit & 0x03030303) << 4, v.z | (h.z >> bit & 0x03030303) << 4,
                    v.w | (h.w >> bit & 0x03030303) << 4);
}
/// Bits 0..15 of h, one a byte, as bit 4 of each byte.
DEV u32 spread4(u32 h) { return (h & 1) << 4 | (h & 2) << 11 | (h & 4) << 18 | (h & 8) << 25; }
DEV uint4 with_spread(const uint4& v, u32 h) {
  return make_uint4(v.x | spread4(h), v.y | spread4(h >> 4), v.z | spread4(h >> 8), v.w | spread4(h >> 12));
}

/// The codes of both sixteens, and the numbers that turn integer sums into values, unpacked once for all activation rows.
struct Unpacked {
  uint4 a, b;
  float da, db;  // factors of the integer sums
  float ma, mb;  // factors of the activation sums
};
template <int F> DEV Unpacked unpack(const Raw& r, int chunk) {
  Unpacked u;
  if (F == Q4_K || F == Q5_K) {
    const int pair = chunk % 8 / 2;
    u.a = low_nibbles(r.codes);
    u.b = high_nibbles(r.codes);
    if (F == Q5_K) {
      u.a = with_bit(u.a, r.third, 2 * pair);
      u.b = with_bit(u.b, r.third, 2 * pair + 1);
    }
    int s0, m0, s1, m1;
    k_scales(r.second, 2 * pair, s0, m0);
    k_scales(r.second, 2 * pair + 1, s1, m1);
    const float d = from_half((u16)r.second.x), m = -from_half((u16)(r.second.x >> 16));
    u.da = d * s0;
    u.db = d * s1;
    u.ma = m * m0;
    u.mb = m * m1;
  } else if (F == Q6_K) {
    const int c = chunk % 8, g = c / 2 & 1;
    u.a = with_two_bits(low_nibbles(r.codes), r.second, 2 * g);
    u.b = with_two_bits(high_nibbles(r.codes), r.second, 4 + 2 * g);
    const float d = from_half((u16)r.scales);
    u.da = d * (i8)r.high;
    u.db = d * (i8)(r.high >> 8);
    u.ma = -32.0f * u.da;
    u.mb = -32.0f * u.db;
  } else if (F == Q8_0) {
    u.a = r.codes;
    u.b = r.second;
    u.da = u.db = from_half((u16)r.scales);
    u.ma = u.mb = 0.0f;
  } else {
    u.a = low_nibbles(r.codes);
    u.b = high_nibbles(r.codes);
    if (F == Q5_0 || F == Q5_1) {
      u.a = with_spread(u.a, r.high);
      u.b = with_spread(u.b, r.high >> 16);
    }
    u.da = u.db = from_half((u16)r.scales);
    if (F == Q4_1 || F == Q5_1) u.ma = u.mb = from_half((u16)(r.scales >> 16));
    else u.ma = u.mb = (F == Q4_0 ? -8.0f : -16.0f) * u.da;
  }
  return u;
}

/// Adds the dot products of `rows` rows of W (row index r * step behind `row`) with T rows of activations, of this lane's chunks.
template <int F, int T, int R> DEV void accumulate(const Blocks* const* w, const i64* row, int k, const Activations& x, float (*acc)[T], bool waits) {
  const int lane = threadIdx.x & 31, chunks = k / 32;
  enum { per_block = Format<F>::sixteens / 2, steps = T == 1 ? 4 : T == 2 ? 2 : 1 };
  i64 blocks[R];
#pragma unroll
  for (int r = 0; r < R; ++r) blocks[r] = row[r] * (chunks / per_block);
  for (int base = lane; base < chunks; base += 32 * steps) {
    Raw raw[steps][R];
#pragma unroll
    for (int s = 0; s < steps; ++s)
      if (base + 32 * s < chunks) {
#pragma unroll
        for (int r = 0; r < R; ++r) raw[s][r] = load<F>(*w[r], blocks[r], base + 32 * s);
      }
    if (waits) {
      wait_previous();
      waits = false;
    }
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      const int chunk = base + 32 * s;
      if (chunk >= chunks) break;
      int first, second;
      offsets<F>(chunk, first, second);
      Unpacked u[R];
#pragma unroll
      for (int r = 0; r < R; ++r) u[r] = unpack<F>(raw[s][r], chunk);
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const i8* codes = at<const i8>(x.codes) + (i64)t * k;
        const uint2* meta = at<const uint2>(x.meta) + (i64)t * (k / 32);
        const uint4 xa = *reinterpret_cast<const uint4*>(codes + first), xb = *reinterpret_cast<const uint4*>(codes + second);
        const uint2 ma = meta[first / 32], mb = meta[second / 32];
        const float sa = __uint_as_float(ma.x), sb = __uint_as_float(mb.x);
        const float ta = (float)(short)(first & 16 ? ma.y >> 16 : ma.y), tb = (float)(short)(second & 16 ? mb.y >> 16 : mb.y);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          float v = fmaf(u[r].da, (float)dot16(u[r].a, xa), F == Q8_0 ? 0.0f : u[r].ma * ta) * sa;
          v = fmaf(fmaf(u[r].db, (float)dot16(u[r].b, xb), F == Q8_0 ? 0.0f : u[r].mb * tb), sb, v);
          acc[r][t] += v;
        }
      }
    }
  }
  if (waits) wait_previous();
}

template <int T, int R> DEV void accumulate_any(int dtype, const Blocks* const* w, const i64* row, int k, const Activations& x, float (*acc)[T], bool waits) {
  switch (dtype) {
    case Q4_0: accumulate<Q4_0, T, R>(w, row, k, x, acc, waits); break;
    case Q4_1: accumulate<Q4_1, T, R>(w, row, k, x, acc, waits); break;
    case Q5_0: accumulate<Q5_0, T, R>(w, row, k, x, acc, waits); break;
    case Q5_1: accumulate<Q5_1, T, R>(w, row, k, x, acc, waits); break;
    case Q8_0: accumulate<Q8_0, T, R>(w, row, k, x, acc, waits); break;
    case Q4_K: accumulate<Q4_K, T, R>(w, row, k, x, acc, waits); break;
    case Q5_K: accumulate<Q5_K, T, R>(w, row, k, x, acc, waits); break;
    default: accumulate<Q6_K, T, R>(w, row, k, x, acc, waits); break;
  }
}

/// The factor of the norm that activations row t still lack.
DEV float norm_factor(const Activations& x, int t, int k) {
  if (!x.sums) return 1.0f;
  float s = 0.0f;
  for (int i = threadIdx.x & 31; i < x.sum_count; i += 32) s += at<const float>(x.sums)[(i64)t * x.sum_count + i];
  return 1.0f / sqrtf(warp_sum(s) / (float)k + x.epsilon);
}

template <int T> DEV void gemv(const GemvParams& p) {
  __shared__ float made[T][32];
  start_next();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  float factor[T];
  // In a round a warp makes one output from a row of gate and one of up under glu, else two outputs of two rows.
  const int a_round = p.glu ? 1 : 2;
#pragma unroll 1
  for (int round = 0; round < p.rounds; ++round) {
    const int place = (round * warps + warp) * a_round;  // among the block's outputs
    int o = blockIdx.x * p.rounds * warps * a_round + place, part = 0;
    if (!p.glu)
      while (part < p.parts - 1 && o >= p.part[part].rows) o -= p.part[part++].rows;
    const GemvPart& q = p.part[part];
    const int last = q.rows - 1;
    float acc[2][T] = {};
    const Blocks* w[2] = {&q.w, p.glu ? &p.part[1].w : &q.w};
    const i64 rows[2] = {min(o, last), min(p.glu ? o : o + 1, last)};
    accumulate_any<T, 2>(q.w.dtype, w, rows, p.k, p.x, acc, round == 0);
    if (round == 0)
      for (int t = 0; t < T; ++t) factor[t] = norm_factor(p.x, t, p.k);
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const float a = warp_sum(acc[0][t]) * factor[t], b = warp_sum(acc[1][t]) * factor[t];
      if (lane > 1 - p.glu || o + lane > last || t >= p.t) continue;  // lane r stores row r
      float y = p.glu ? SILU(a) * b : lane == 0 ? a : b;
      const int row = o + lane;
      if (q.bias) y += at<const float>(q.bias)[row];
      if (p.residual) y += at<const float>(p.residual)[(i64)t * q.rows + row];
      if (p.out.codes) made[t][place + lane] = y;
      if (q.y) at<float>(q.y)[(i64)t * q.rows + row] = y;
    }
  }
  if (!p.out.codes) return;
  __syncthreads();
  const int groups = p.part[0].rows / 32;
  for (int t = warp; t < p.t; t += warps) {  // 32 outputs a block: one group
    const float x = made[t][lane];
    const float weight = p.out_weight ? at<const float>(p.out_weight)[blockIdx.x * 32 + lane] + p.out_offset : 1.0f;
    quantise32(x * weight, p.out, (i64)t * groups + blockIdx.x, lane);
    if (p.out.sums) {
      const float squares = warp_sum(x * x);
      if (lane == 0) at<float>(p.out.sums)[(i64)t * p.out.sum_count + blockIdx.x] = squares;
    }
  }
}

extern "C" __global__ void __launch_bounds__(512, 1) gemv_1(const __grid_constant__ GemvParams p) { gemv<1>(p); }
extern "C" __global__ void __launch_bounds__(512, 1) gemv_2(const __grid_constant__ GemvParams p) { gemv<2>(p); }
extern "C" __global__ void __launch_bounds__(512, 1) gemv_4(const __grid_constant__ GemvParams p) { gemv<4>(p); }
extern "C" __global__ void __launch_bounds__(512, 1) gemv_8(const __grid_constant__ GemvParams p) { gemv<8>(p); }
