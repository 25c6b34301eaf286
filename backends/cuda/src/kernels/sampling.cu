// Penalties, biases, and the draw, one block a row. See OPS.md: penalize, logit_bias, sample.
//
// A draw at temperature 0 is one pass for the best token and one for the sum; else the row is sorted by (logit, lowest id) with a
// radix sort in global memory, 8 bits a pass over 64-bit keys whose upper half orders logits from best to worst.
#include "prelude.cuh"

/// A block's share of a row's n tokens; blocks in y share the row.
DEV void share_of(i64 n, i64& begin, i64& end) {
  const i64 share = (n + gridDim.y - 1) / gridDim.y;
  begin = min(n, blockIdx.y * share);
  end = min(n, begin + share);
}

KERNEL(256) penalize(const __grid_constant__ PenalizeParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  i64 begin, end;
  share_of(p.n, begin, end);
  const float *x = at<const float>(p.x) + row * p.n, *params = at<const float>(p.params) + row * 8;
  float* y = at<float>(p.y) + row * p.n;
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) y[i] = x[i];
  __syncthreads();
  const int* history = at<const int>(p.history) + row * p.capacity;
  const i64 length = min((i64)max(at<const int>(p.length)[row], 0), p.capacity);
  const float window = params[7] > 0.0f ? fminf(params[7], (float)p.capacity) : 0.0f;
  const i64 first = max((i64)0, length - (i64)window);
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
  for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) y[i] = x[i];
  __syncthreads();
  const int* tokens = at<const int>(p.token) + row * p.entries;
  const float* bias = at<const float>(p.bias) + row * p.entries;
  for (i64 e = threadIdx.x; e < p.entries; e += blockDim.x) {
    const int token = tokens[e];
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

DEV u32 philox(u32 step, u32 k0, u32 k1) {
  u32 c0 = step, c1 = 0, c2 = 0, c3 = 0;
  for (int round = 0; round < 10; ++round) {
    const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(b >> 32) ^ c1 ^ k0;
    c1 = (u32)b;
    c2 = (u32)(a >> 32) ^ c3 ^ k1;
    c3 = (u32)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

/// Orders floats as unsigned numbers, the largest first; NaN as -inf.
DEV u32 descending(float x) {
  if (x != x) x = -INFINITY_F;
  if (x == 0.0f) x = 0.0f;  // -0 equals 0
  const u32 b = __float_as_uint(x);
  return ~(b & 0x80000000u ? ~b : b | 0x80000000u);
}
DEV float from_descending(u32 key) {
  const u32 b = ~key;
  return __uint_as_float(b & 0x80000000u ? b & 0x7fffffffu : ~b);
}
DEV double weight_of(float x, float best, double temperature) { return x == best ? 1.0 : exp(((double)x - (double)best) / temperature); }

DEV double block_sum_double(double v) {
  __shared__ double part[33];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    double s = 0;
    for (int i = 0; i < (int)blockDim.x / 32; ++i) s += part[i];
    part[32] = s;
  }
  __syncthreads();
  return part[32];
}

/// Sorts n keys by their upper 32 bits, stable; the result is in `from` again (four passes of 8 bits).
DEV void sort_keys(u64* from, u64* to, i64 n) {
  __shared__ u32 count[32][256];  // a warp's bucket counts, then places
  __shared__ u32 totals[256];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  const i64 share = (n + warps - 1) / warps, begin = min(n, warp * share), end = min(n, begin + share);
  for (int shift = 32; shift < 64; shift += 8) {
    for (int b = lane; b < 256; b += 32) count[warp][b] = 0;
    __syncwarp();
    for (i64 i = begin + lane; i < end; i += 32) atomicAdd(&count[warp][from[i] >> shift & 255], 1u);
    __syncthreads();
    if (threadIdx.x < 256) {
      u32 total = 0;
      for (int w = 0; w < warps; ++w) {
        const u32 c = count[w][threadIdx.x];
        count[w][threadIdx.x] = total;
        total += c;
      }
      totals[threadIdx.x] = total;
      asm volatile("bar.sync 1, 256;" ::: "memory");
      if (threadIdx.x == 0) {
        u32 run = 0;
        for (int b = 0; b < 256; ++b) {
          const u32 c = totals[b];
          totals[b] = run;
          run += c;
        }
      }
      asm volatile("bar.sync 1, 256;" ::: "memory");
      for (int w = 0; w < warps; ++w) count[w][threadIdx.x] += totals[threadIdx.x];
    }
    __syncthreads();
    for (i64 i = begin; i < end; i += 32) {
      const bool mine = i + lane < end;
      const u64 key = mine ? from[i + lane] : 0;
      const u32 bucket = mine ? (u32)(key >> shift & 255) : 256;
      const u32 same = __match_any_sync(~0u, bucket);
      const u32 before = __popc(same & ((1u << lane) - 1));
      u32 base = 0;
      if (mine) base = count[warp][bucket];
      __syncwarp();
      if (mine && before == 0) count[warp][bucket] = base + __popc(same);
      __syncwarp();
      if (mine) to[base + before] = key;
    }
    __syncthreads();
    u64* swap = from;
    from = to;
    to = swap;
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
  float best = -INFINITY_F;
  int place = 0x7fffffff;
#pragma unroll 8
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = x[i];
    if (v > best) {
      best = v;
      place = (int)i;
    }
  }
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
#pragma unroll 8
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = x[i];
    sum += v != v ? 0.0f : __expf(v - top);
  }
  sum = block_sum(sum);
  int chosen = place == 0x7fffffff ? 0 : place;
  const double temperature = params[0];
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
      const u32 *seed = at<const u32>(p.seed) + row * 2, word = philox((u32)at<const int>(p.step)[row], seed[0], seed[1]);
      const double limit = ((double)word + 0.5) / 4294967296.0 * total;
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
    at<float>(p.logprob)[row] = x[chosen] - top - logf(sum);
  }
}
