// y = W x for 1 to 8 rows of int8 activations, weights in any block format, sums in i32 within a group and f32 over groups.
//
//   block    up to 16 warps, each two rows of W at once (under glu a row of gate and one of up), in rounds; 32 outputs a block where
//            it quantises them
//   lanes    lane l takes items l, l + 32, ...: 64 weights of a K format, else a block of 32. Weights lie in
//            planes, or are canonical Q4_K or Q5_K: every load of codes is 16 bytes at a multiple of 16
//   loads    of both rows and unrolled steps before their use: 2 rows x 2 steps x 48 bytes a lane for Q4_K; with 64 registers a
//            thread and twice the warps it spilled, and TinyLlama went from 567 to 454 tokens/s (H200)
//   cost     a K format's scales are decoded once for 64 weights: items of 32 took 110 instructions each, and the card issued no more
//   order    a row's items are summed in one order whatever the number of activation rows: the bits do not depend on the batch
//
// The epilogue normalises (the factor of an rms_norm that was folded into the activations), adds bias and residual, applies
// SwiGLU, and quantises its 32 outputs for the next product together with the sum of squares that its norm needs.
#include "activation.cuh"
#include "dot.cuh"
#include "quantise.cuh"

template <int F> DEV Place place_of(const Blocks& w, i64 row_blocks, int lane) {
  typedef Item<F> S;
  const i64 block = row_blocks + (S::k ? lane >> 2 : lane);
  const int c = lane & 3;
  Place p;
  p.scales = at<const char>(w.plane[0]) + block * S::scales;
  p.codes = at<const char>(w.plane[1]) + block * S::codes + (S::k ? c * 32 : 0);
  if (F != Q4_K && F != Q4_0 && F != Q4_1 && F != Q8_0)
    p.high = at<const char>(w.plane[2]) + block * S::high + (F == Q6_K ? c / 2 * 32 : 0);
  if (F == Q6_K) p.sub = at<const char>(w.plane[3]) + block * 16 + c / 2 * 8 + (c & 1) * 2;
  return p;
}
/// Adds the dot products of R rows of W with T rows of activations, of this lane's items.
template <int F, int T, int R>
DEV void accumulate(const Blocks* const* w, const i64* row, int k, const Activations& x, float (*acc)[T],
                    bool waits) {
  typedef Item<F> S;
  enum { steps = T == 1 ? (F == Q5_K || F == Q6_K ? 1 : S::k || F == Q8_0 ? 2 : 4) : 1 };
  const int lane = threadIdx.x & 31, items = k / S::elements;
  Place p[R];
#pragma unroll
  for (int r = 0; r < R; ++r) p[r] = place_of<F>(*w[r], row[r] * (S::k ? items / 4 : items), lane);
  const int c = lane & 3;
  const int first = !S::k ? lane * 32 : (lane >> 2) * 256 + (F == Q6_K ? c / 2 * 128 + (c & 1) * 32 : c * 64);
  const i8* codes = at<const i8>(x.codes) + first;
  const float2* meta = at<const float2>(x.meta) + first / 32;
#pragma unroll 1
  for (int base = lane; base < items; base += 32 * steps) {
    Raw raw[steps][R];
#pragma unroll
    for (int s = 0; s < steps; ++s)
      if (s == 0 || base + 32 * s < items) {
#pragma unroll
        for (int r = 0; r < R; ++r) raw[s][r] = load<F, false>(p[r], s);
      }
    if (waits) {
      wait_previous();
      waits = false;
    }
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      if (s > 0 && base + 32 * s >= items) break;
      Input in[T];
#pragma unroll
      for (int t = 0; t < T; ++t) in[t] = load_input<F>(codes + (i64)t * k + s * 32 * S::elements, meta + t * (k / 32) + s * S::elements);
#pragma unroll
      for (int r = 0; r < R; ++r) item_dot<F, T>(raw[s][r], in, lane, acc[r]);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      p[r].scales += steps * S::blocks * S::scales;
      p[r].codes += steps * S::blocks * S::codes;
      if (F != Q4_K && F != Q4_0 && F != Q4_1 && F != Q8_0) p[r].high += steps * S::blocks * S::high;
      if (F == Q6_K) p[r].sub += steps * S::blocks * 16;
    }
    codes += steps * 32 * S::elements;
    meta += steps * S::elements;
  }
  if (waits) wait_previous();
}

template <int T, int R>
DEV void accumulate_any(int dtype, const Blocks* const* w, const i64* row, int k, const Activations& x,
                        float (*acc)[T], bool waits) {
  switch (dtype) {
#define CALL(FORMAT) accumulate<FORMAT, T, R>(w, row, k, x, acc, waits)
    FAST_FORMAT_CASES
#undef CALL
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
      // Rounded here for every T: a row's bits are those of any number of rows.
      const float a = __fmul_rn(warp_sum(acc[0][t]), factor[t]), b = __fmul_rn(warp_sum(acc[1][t]), factor[t]);
      if (lane > 1 - p.glu || o + lane > last || t >= p.t) continue;  // lane r stores row r
      float y = p.glu ? __fmul_rn(gate_value(a, p.activation), b) : lane == 0 ? a : b;
      const int row = o + lane;
      if (q.bias) y += at<const float>(q.bias)[row];
      if (p.residual) y += at<const float>(p.residual)[(i64)t * q.rows + row];
      if (p.residual2) y += at<const float>(p.residual2)[(i64)t * q.rows + row];
      if (!p.glu && p.activation) y = other_gate(y, p.activation);
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
      const float squares = warp_sum_of_squares(x);
      if (lane == 0) at<float>(p.out.sums)[(i64)t * p.out.sum_count + blockIdx.x] = squares;
    }
  }
}

extern "C" __global__ void __launch_bounds__(512, 1) gemv_1(const __grid_constant__ GemvParams p) { gemv<1>(p); }
extern "C" __global__ void __launch_bounds__(512, 1) gemv_2(const __grid_constant__ GemvParams p) { gemv<2>(p); }
extern "C" __global__ void __launch_bounds__(512, 1) gemv_4(const __grid_constant__ GemvParams p) { gemv<4>(p); }
extern "C" __global__ void __launch_bounds__(512, 1) gemv_8(const __grid_constant__ GemvParams p) { gemv<8>(p); }
