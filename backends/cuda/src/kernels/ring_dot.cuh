// Of rings.cu: what a lane reads of two rows in a slot, and adds to their sums.
#pragma once
#include "dot.cuh"

/// v with bits 0 to 15 of h, one a byte, as bit 4 of each: a product moves four of them at once.
DEV uint4 with_fifth(const uint4& v, u32 h) {
  const u32 high = h >> 8;
  return make_uint4(v.x | ((h & 0x0f) * 0x02040810u & 0x10101010u), v.y | ((h & 0xf0) * 0x00204081u & 0x10101010u),
                    v.z | ((high & 0x0f) * 0x02040810u & 0x10101010u), v.w | ((high & 0xf0) * 0x00204081u & 0x10101010u));
}

/// A lane's activations of an item, for both rows.
struct Both {
  Input x;
  float least[2];  // scale x sum of codes
  int sums[4];     // of Q6_K: -32 times the sum of 16 codes, 16 times that of the high nibbles' ones
};

/// Scales and minimums of a lane's two groups of a Q5_K block: bytes sa, sb, ma, mb.
struct Unpack {
  u32 which, low, high;
  int shift;
  DEV explicit Unpack(int c) {
    which = c & 1 ? 0x7632 : 0x5410;
    low = c < 2 ? 0x3f3f3f3fu : 0x30303030u;
    high = c < 2 ? 0 : 0x0f0f0f0fu;
    shift = c < 2 ? 0 : 2;
  }
  DEV u32 operator()(const uint4& h) const {
    const u32 a = __byte_perm(h.y, h.z, which) >> shift, b = __byte_perm(h.w, h.w >> 4, which);
    return (a & low) | (b & high);
  }
};

/// codes: of the low nibbles times their scale, then of the high nibbles, 16 times too large.
DEV float k_result(u32 header, u32 scales, int low, int high, const Both& b, float acc) {
  const float d = from_half((u16)header), m = from_half((u16)(header >> 16));
  const float fa = (float)((int)(scales & 0xff) * low), fb = (float)((int)(scales >> 8 & 0xff) * high);
  const float least = fmaf(byte_of(scales, 2), b.least[0], byte_of(scales, 3) * b.least[1]);
  return fmaf(d, fmaf(fa, b.x.m[0].x, fb * b.x.m[1].x), fmaf(-m, least, acc));
}

/// Where a lane's first item of a chunk is: in a slot, of each row; and its activations, of the first chunk, as addresses in shared memory.
struct Places {
  u32 codes[2], scales[2], high[2], sub[2], q[4], m;
};
/// What lies there, read as shared memory: of a generic pointer the compiler does not always know that.
template <class T> DEV const T& shared_at(u32 address) { return *reinterpret_cast<const T*>(__cvta_shared_to_generic(address)); }

/// The order of 16-byte chunks of the activations: see rings.cu.
DEV int swizzled(int t) { return (t ^ (t >> 3 & 1) ^ (t >> 4 & 1) * 6) * 16; }

/// Block formats.
template <int F> struct Lane {
  typedef Item<F> S;

  static DEV Places places(const RingParams::Pieces& p, const char* x_at, const char* meta_at) {
    const u32 x = (u32)__cvta_generic_to_shared(x_at), meta = (u32)__cvta_generic_to_shared(meta_at);
    const int lane = threadIdx.x & 31, c = lane & 3, b = S::k ? lane >> 2 : lane;
    Places o = {};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool whole = F == Q4_K || F == Q5_K;
      o.scales[r] = r * p.pitch[0] + b * S::scales;
      o.codes[r] = (whole ? r * p.pitch[0] + (F == Q4_K ? 16 : 48) : p.base[1] + r * p.pitch[1]) + b * S::codes + (S::k ? c * 32 : 0);
      if (F == Q5_K) o.high[r] = r * p.pitch[0] + 16 + b * S::high;
      if (F == Q5_0 || F == Q5_1) o.high[r] = p.base[2] + r * p.pitch[2] + b * S::high;
      if (F == Q6_K) {
        o.high[r] = p.base[2] + r * p.pitch[2] + b * S::high + c / 2 * 32;
        o.sub[r] = p.base[3] + r * p.pitch[3] + b * 16 + c / 2 * 8 + (c & 1) * 2;
      }
    }
    const int element = !S::k ? lane * 32 : b * 256 + (F == Q6_K ? c / 2 * 128 + (c & 1) * 32 : c * 64);
    const int t = element / 16, apart = F == Q6_K ? 4 : 2;
    o.q[0] = x + swizzled(t);
    o.q[1] = x + swizzled(t + 1);
    o.q[2] = x + swizzled(t + apart);
    o.q[3] = x + swizzled(t + apart + 1);
    o.m = meta + t / 2 * 8;
    return o;
  }

  /// `on`: elements of the row before this turn. A turn of the warp is 64 or 128 chunks: that changes no bit that decides the order of banks.
  static DEV void load_both(const Places& o, Both& b, int on) {
    const int apart = F == Q6_K ? 4 : 2;
    b.x.q[0] = shared_at<uint4>(o.q[0] + on);
    b.x.q[1] = shared_at<uint4>(o.q[1] + on);
    b.x.m[0] = shared_at<float2>(o.m + on / 4);
    b.least[0] = b.x.m[0].x * b.x.m[0].y;
    if (!S::k) return;
    b.x.q[2] = shared_at<uint4>(o.q[2] + on);
    b.x.q[3] = shared_at<uint4>(o.q[3] + on);
    b.x.m[1] = shared_at<float2>(o.m + apart * 4 + on / 4);
    if (F == Q6_K) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        b.sums[i] = dot16(make_uint4(0x01010101, 0x01010101, 0x01010101, 0x01010101), b.x.q[i], 0) * (i < 2 ? -32 : -512);
    } else {
      b.least[1] = b.x.m[1].x * b.x.m[1].y;
    }
    b.x.m[1].x *= 0.0625f;  // high nibbles stay where they are
  }

  /// One item of one row. The pointers are those of the lane's item.
  static DEV float item(const char* scale_at, const char* code_at, const char* high_at, const char* sub_at, const Both& b, float acc) {
    const int lane = threadIdx.x & 31;
    const uint4 v0 = *reinterpret_cast<const uint4*>(code_at);
    if (S::k) {
      const uint4 v1 = *reinterpret_cast<const uint4*>(code_at + 16);
      if (F != Q6_K) {
        const uint4 header = *reinterpret_cast<const uint4*>(scale_at);
        int low = dot16_unsigned(v0, 0x0f0f0f0f, b.x.q[0], 0), top = dot16_unsigned(v0, 0xf0f0f0f0, b.x.q[2], 0);
        low = dot16_unsigned(v1, 0x0f0f0f0f, b.x.q[1], low);
        top = dot16_unsigned(v1, 0xf0f0f0f0, b.x.q[3], top);
        if (F == Q5_K) {  // the fifth bits of both groups lie side by side: 16 and 32 after a turn
          const uint4 h0 = *reinterpret_cast<const uint4*>(high_at), h1 = *reinterpret_cast<const uint4*>(high_at + 16);
          const int turn = 4 - 2 * (lane & 3);
          const auto turned = [&](const uint4& h) {
            return make_uint4(__funnelshift_l(h.x, h.x, turn), __funnelshift_l(h.y, h.y, turn), __funnelshift_l(h.z, h.z, turn),
                              __funnelshift_l(h.w, h.w, turn));
          };
          const uint4 t0 = turned(h0), t1 = turned(h1);
          low = dot16_unsigned(t0, 0x10101010, b.x.q[0], low);
          low = dot16_unsigned(t1, 0x10101010, b.x.q[1], low);
          top += 8 * dot16_unsigned(t1, 0x20202020, b.x.q[3], dot16_unsigned(t0, 0x20202020, b.x.q[2], 0));
        }
        return k_result(header.x, Unpack(lane & 3)(header), low, top, b, acc);
      }
      const uint4 h0 = *reinterpret_cast<const uint4*>(high_at), h1 = *reinterpret_cast<const uint4*>(high_at + 16);
      const u16* s = reinterpret_cast<const u16*>(sub_at);
      const u32 subs = s[0] | (u32)s[2] << 16;
      const int g = (lane & 1) * 2, times = 16 >> g;
      const u32 mask = 0x03030303u << g, mask2 = mask << 4;
      const int a0 = dot16_unsigned(v0, 0x0f0f0f0f, b.x.q[0], b.sums[0]) + times * dot16_unsigned(h0, mask, b.x.q[0], 0);
      const int a1 = dot16_unsigned(v1, 0x0f0f0f0f, b.x.q[1], b.sums[1]) + times * dot16_unsigned(h1, mask, b.x.q[1], 0);
      const int b0 = dot16_unsigned(v0, 0xf0f0f0f0, b.x.q[2], b.sums[2]) + times * dot16_unsigned(h0, mask2, b.x.q[2], 0);
      const int b1 = dot16_unsigned(v1, 0xf0f0f0f0, b.x.q[3], b.sums[3]) + times * dot16_unsigned(h1, mask2, b.x.q[3], 0);
      const float fa = (float)((int)(i8)subs * a0 + (int)(i8)(subs >> 8) * a1);
      const float fb = (float)((int)(i8)(subs >> 16) * b0 + (int)(i8)(subs >> 24) * b1);
      return fmaf(from_half(*reinterpret_cast<const u16*>(scale_at)), fmaf(fa, b.x.m[0].x, fb * b.x.m[1].x), acc);
    }
    int sum;
    if (F == Q8_0) {
      sum = dot16(v0, b.x.q[0], dot16(*reinterpret_cast<const uint4*>(code_at + 16), b.x.q[1], 0));
    } else if (F == Q4_0 || F == Q4_1) {
      sum = dot16_unsigned(v0, 0x0f0f0f0f, b.x.q[0], 0) + (dot16_unsigned(v0, 0xf0f0f0f0, b.x.q[1], 0) >> 4);
    } else {
      const u32 h = *reinterpret_cast<const u32*>(high_at);
      sum = dot16(with_fifth(low_nibbles(v0), h & 0xffff), b.x.q[0], dot16(with_fifth(high_nibbles(v0), h >> 16), b.x.q[1], 0));
    }
    // Whole numbers until the scale: a sum of 0 stays 0.
    const float middle = F == Q4_0 ? -8.0f : F == Q5_0 ? -16.0f : 0.0f;
    acc = fmaf(from_half(*reinterpret_cast<const u16*>(scale_at)) * b.x.m[0].x, fmaf(middle, b.x.m[0].y, (float)sum), acc);
    if (F == Q4_1 || F == Q5_1) acc = fmaf(from_half(reinterpret_cast<const u16*>(scale_at)[1]), b.least[0], acc);
    return acc;
  }

  /// A chunk of rows `row` and `row2`, from block `from` of theirs on.
  static DEV void add(const Places& o, const RingParams::Pieces& p, const char* slot, int row, int row2, int from, float* acc) {
    const int items = min(p.here, p.blocks - from) * (S::k ? 4 : 1);
    const char *s[2], *c[2], *h[2], *u[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // Pieces that are no sixteens start in the sixteen of their first byte.
      const u32 block = S::scales % 16 ? (u32)(r ? row2 : row) * p.blocks + from : 0;
      s[r] = slot + o.scales[r] + (block * S::scales & 15);
      c[r] = slot + o.codes[r];
      h[r] = F == Q5_0 || F == Q5_1 ? slot + o.high[r] + (block * 4 & 15) : F == Q5_K || F == Q6_K ? slot + o.high[r] : nullptr;
      u[r] = F == Q6_K ? slot + o.sub[r] : nullptr;
    }
    int on = from * (S::k ? 256 : 32);
#pragma unroll (S::k ? 1 : 2)
    for (int item_at = threadIdx.x & 31; item_at < items; item_at += 32) {
      Both b;
      load_both(o, b, on);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        acc[r] = item(s[r], c[r], h[r], u[r], b, acc[r]);
        s[r] += S::blocks * S::scales;
        c[r] += S::blocks * S::codes;
        if (F == Q5_0 || F == Q5_1 || F == Q5_K || F == Q6_K) h[r] += S::blocks * S::high;
        if (F == Q6_K) u[r] += S::blocks * 16;
      }
      on += 32 * S::elements;
    }
  }
};

/// Weights of 16 bits: the row in f32.
template <int F> struct FloatLane {
  static DEV Places places(const RingParams::Pieces& p, const char* x_at, const char*) {
    const u32 x = (u32)__cvta_generic_to_shared(x_at);
    const int lane = threadIdx.x & 31;
    Places o = {};
    o.codes[0] = lane * 16;
    o.codes[1] = lane * 16 + p.pitch[0];
    o.q[0] = x + swizzled(2 * lane);
    o.q[1] = x + swizzled(2 * lane + 1);
    return o;
  }
  static DEV float low(u32 w) { return F == F16 ? from_half((u16)w) : __uint_as_float(w << 16); }
  static DEV float high(u32 w) { return F == F16 ? from_half((u16)(w >> 16)) : __uint_as_float(w & 0xffff0000u); }
  static DEV void add(const Places& o, const RingParams::Pieces& p, const char* slot, int, int, int from, float* acc) {
    const int n = min(p.here, p.blocks - from) * 32;
    const char* w[2] = {slot + o.codes[0], slot + o.codes[1]};
    u32 a_at = o.q[0] + from * 128, b_at = o.q[1] + from * 128;
#pragma unroll 2
    for (int e = (threadIdx.x & 31) * 8; e < n; e += 256) {
      const float4 a = shared_at<float4>(a_at), b = shared_at<float4>(b_at);
      a_at += 1024;
      b_at += 1024;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint4 v = *reinterpret_cast<const uint4*>(w[r]);
        w[r] += 512;
        float y = fmaf(low(v.x), a.x, acc[r]);
        y = fmaf(high(v.x), a.y, y);
        y = fmaf(low(v.y), a.z, y);
        y = fmaf(high(v.y), a.w, y);
        y = fmaf(low(v.z), b.x, y);
        y = fmaf(high(v.z), b.y, y);
        y = fmaf(low(v.w), b.z, y);
        acc[r] = fmaf(high(v.w), b.w, y);
      }
    }
  }
};
template <> struct Lane<F16> : FloatLane<F16> {};
template <> struct Lane<BF16> : FloatLane<BF16> {};
