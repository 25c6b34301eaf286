// Penalties, biases, and the draw, one block a row. See OPS.md: penalize, logit_bias, sample.
//
// A draw at temperature 0 is one pass for the best token and one for the sum; else the row is sorted by (logit, lowest id) with a
// radix sort in global memory, 8 bits a pass over 64-bit keys whose upper half orders logits from best to worst.
#include "philox.cuh"
#include "sort.cuh"

/// A block's share of a row's n tokens; blocks in y share the row.
DEV void share_of(i64 n, i64& begin, i64& end) {
  const i64 share = (n + gridDim.y - 1) / gridDim.y;
  begin = min(n, blockIdx.y * share);
  end = min(n, begin + share);
}

/// A block's share of a row, whose loads are all under way at once.
DEV void copy_share(const float* x, float* y, i64 begin, i64 end) {
  enum { EACH = 8 };
  for (i64 first = begin + threadIdx.x; first < end; first += EACH * blockDim.x) {
    float v[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
      if (first + e * blockDim.x < end) v[e] = x[first + e * blockDim.x];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
      if (first + e * blockDim.x < end) y[first + e * blockDim.x] = v[e];
  }
}

KERNEL(256) penalize(const __grid_constant__ PenalizeParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  i64 begin, end;
  share_of(p.n, begin, end);
  const float *x = at<const float>(p.x) + row * p.n, *params = at<const float>(p.params) + row * 8;
  float* y = at<float>(p.y) + row * p.n;
  const int* history = at<const int>(p.history) + row * p.capacity;
  const i64 length = min((i64)max(at<const int>(p.length)[row], 0), p.capacity);
  const float window = params[7] > 0.0f ? fminf(params[7], (float)p.capacity) : 0.0f;
  const i64 first = max((i64)0, length - (i64)window);
  copy_share(x, y, begin, end);
  if (first >= length) return;  // of the whole row
  __syncthreads();
  for (i64 i = first + threadIdx.x; i < length; i += blockDim.x) {
    const int token = history[i];
    if (token >= p.n) raise_fault(p.faults);
    if (token < begin || token >= end) continue;
    int count = 0;
    bool earlier = false;  // the first place of a token writes it
    for (i64 j = first; j < length && !earlier; ++j)
      if (history[j] == token) {
        earlier = j < i;
        ++count;
      }
    if (earlier) continue;
    float v = x[token];
    v = v > 0.0f ? v / params[4] : v * params[4];
    y[token] = v - params[6] * (float)count - params[5];
  }
}

KERNEL(256) logit_bias(const __grid_constant__ BiasParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  i64 begin, end;
  share_of(p.n, begin, end);
  const float* x = at<const float>(p.x) + row * p.n;
  float* y = at<float>(p.y) + row * p.n;
  const int* tokens = at<const int>(p.token) + row * p.entries;
  const float* bias = at<const float>(p.bias) + row * p.entries;
  const int first = threadIdx.x < p.entries ? tokens[threadIdx.x] : -1;
  copy_share(x, y, begin, end);
  __syncthreads();
  for (i64 e = threadIdx.x; e < p.entries; e += blockDim.x) {
    const int token = e == threadIdx.x ? first : tokens[e];
    if (token == -1) continue;
    if (token < 0 || token >= p.n) {
      raise_fault(p.faults);
      continue;
    }
    if (token < begin || token >= end) continue;
    bool earlier = false;  // the first entry of a token adds all of its entries, in their order
    for (i64 j = 0; j < e && !earlier; ++j) earlier = tokens[j] == token;
    if (earlier) continue;
    float v = x[token];
    for (i64 j = e; j < p.entries; ++j)
      if (tokens[j] == token) v += bias[j];
    y[token] = v;
  }
}

KERNEL(1024) sample(const __grid_constant__ SampleParams p) {
  __shared__ float best_value[32];
  __shared__ int best_place[32];
  __shared__ i64 kept_shared;
  __shared__ int chosen_shared;
  wait_for_inputs();
  const i64 row = blockIdx.x, n = p.n;
  const float *x = at<const float>(p.x) + row * n, *params = at<const float>(p.params) + row * 8;
  const double temperature = params[0];
  float best = -INFINITY_F;
  int place = 0x7fffffff;
  // Four at a time where rows lie at sixteens; a thread keeps its first ones for the sum.
  const i64 fours = n % 4 == 0 && (p.x & 15) == 0 ? n / 4 : 0;
  const float4* x4 = reinterpret_cast<const float4*>(x);
  enum { HELD = 8 };
  float4 held[HELD];
#pragma unroll
  for (int h = 0; h < HELD; ++h)
    if (threadIdx.x + h * blockDim.x < fours) held[h] = x4[threadIdx.x + h * blockDim.x];
  const auto take = [&](float v, i64 i) {
    if (v > best) {
      best = v;
      place = (int)i;
    }
  };
  const auto take_four = [&](const float4& v, i64 i) {
    take(v.x, 4 * i);
    take(v.y, 4 * i + 1);
    take(v.z, 4 * i + 2);
    take(v.w, 4 * i + 3);
  };
#pragma unroll
  for (int h = 0; h < HELD; ++h)
    if (threadIdx.x + h * blockDim.x < fours) take_four(held[h], threadIdx.x + h * blockDim.x);
#pragma unroll 4
  for (i64 i = threadIdx.x + HELD * blockDim.x; i < fours; i += blockDim.x) take_four(x4[i], i);
#pragma unroll 1
  for (i64 i = 4 * fours + threadIdx.x; i < n; i += blockDim.x) take(x[i], i);
  for (int round = 0; round < 2; ++round) {
    for (int o = 16; o; o >>= 1) {
      const float v = __shfl_xor_sync(~0u, best, o);
      const int w = __shfl_xor_sync(~0u, place, o);
      if (v > best || (v == best && w < place)) {
        best = v;
        place = w;
      }
    }
    if (round == 1) break;
    if ((threadIdx.x & 31) == 0) {
      best_value[threadIdx.x >> 5] = best;
      best_place[threadIdx.x >> 5] = place;
    }
    __syncthreads();
    best = (threadIdx.x & 31) < blockDim.x / 32 ? best_value[threadIdx.x & 31] : -INFINITY_F;
    place = (threadIdx.x & 31) < blockDim.x / 32 ? best_place[threadIdx.x & 31] : 0x7fffffff;
  }
  const float top = best == -INFINITY_F ? 0.0f : best;
  float sum = 0.0f;
  const auto weight = [&](float v) { return v != v ? 0.0f : __expf(v - top); };
  const auto weights = [&](const float4& v) { return (weight(v.x) + weight(v.y)) + (weight(v.z) + weight(v.w)); };
#pragma unroll
  for (int h = 0; h < HELD; ++h)
    if (threadIdx.x + h * blockDim.x < fours) sum += weights(held[h]);
#pragma unroll 4
  for (i64 i = threadIdx.x + HELD * blockDim.x; i < fours; i += blockDim.x) sum += weights(x4[i]);
#pragma unroll 1
  for (i64 i = 4 * fours + threadIdx.x; i < n; i += blockDim.x) sum += weight(x[i]);
  sum = block_sum(sum);
  int chosen = place == 0x7fffffff ? 0 : place;
  if (temperature > 0.0 && place != 0x7fffffff) {
    u64 *keys = at<u64>(p.keys) + row * 2 * n, *other = keys + n;
    double total = 0;
    i64 finite = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
      keys[i] = (u64)descending(x[i]) << 32 | (u32)i;
      if (x[i] > -INFINITY_F) ++finite;
    }
    const i64 size = (i64)block_sum_double((double)finite);
    __syncthreads();
    sort_keys(keys, other, n);
    i64 kept = size;
    if (params[1] >= 1.0f && params[1] < 2147483648.0f) kept = min(kept, (i64)params[1]);
    if ((double)params[2] < 1.0) {
      for (i64 i = threadIdx.x; i < kept; i += blockDim.x) total += weight_of(from_descending((u32)(keys[i] >> 32)), best, 1.0);
      const double enough = (double)params[2] * block_sum_double(total);
      if (threadIdx.x == 0) {
        double s = 0;
        i64 k = kept;
        for (i64 i = 0; i < k; ++i) {
          s += weight_of(from_descending((u32)(keys[i] >> 32)), best, 1.0);
          if (s >= enough) k = i + 1;
        }
        kept_shared = max((i64)1, k);
      }
      __syncthreads();
      kept = kept_shared;
    }
    if ((double)params[3] > 0.0) {
      __syncthreads();
      if (threadIdx.x == 0) {
        i64 k = kept;
        for (i64 i = 1; i < k; ++i)
          if (weight_of(from_descending((u32)(keys[i] >> 32)), best, 1.0) < (double)params[3]) k = i;
        kept_shared = k;
      }
      __syncthreads();
      kept = kept_shared;
    }
    total = 0;
    for (i64 i = threadIdx.x; i < kept; i += blockDim.x) total += weight_of(from_descending((u32)(keys[i] >> 32)), best, temperature);
    total = block_sum_double(total);
    if (threadIdx.x == 0) {
      const u32* seed = at<const u32>(p.seed) + row * 2;
      const double limit = unit_interval(philox((u32)at<const int>(p.step)[row], 0, 0, seed[0], seed[1]).x) * total;
      double s = 0;
      chosen = (int)(u32)keys[kept - 1];
      for (i64 i = 0; i < kept; ++i) {
        s += weight_of(from_descending((u32)(keys[i] >> 32)), best, temperature);
        if (s > limit) {
          chosen = (int)(u32)keys[i];
          break;
        }
      }
      chosen_shared = chosen;
    }
    __syncthreads();
    chosen = chosen_shared;
  }
  if (threadIdx.x == 0) {
    at<int>(p.token)[row] = chosen;
    at<float>(p.logprob)[row] = (chosen == place ? best : x[chosen]) - top - logf(sum);
  }
}
