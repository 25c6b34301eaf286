// moe_router and its gradient, one warp a token; moe_combine, one thread an element.
#include "moe.hpp"
#include "strided.cuh"

enum { KEPT = 8 };

/// The scores of a token's experts: softmax (0 where the largest logit is infinite) or sigmoid. Lane l keeps the logits of experts l, l + 32, ...,
/// the first KEPT of them; others are read anew.
struct Scores {
  const RouterParams& p;
  const char* logits;
  float kept[KEPT], top = -INFINITY_F, sum = 0.0f;

  DEV Scores(const RouterParams& params, i64 row) : p(params), logits(place(params.logits, params.rows, row)) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) kept[i] = lane + i * 32 < p.experts ? logit(lane + i * 32) : -INFINITY_F;
    if (p.sigmoid) return;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) top = fmaxf(top, kept[i]);
    for (i64 e = lane + KEPT * 32; e < p.experts; e += 32) top = fmaxf(top, logit(e));
    top = warp_max(top);
    if (fabsf(top) == INFINITY_F) return;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) sum += expf(kept[i] - top);
    for (i64 e = lane + KEPT * 32; e < p.experts; e += 32) sum += expf(logit(e) - top);
    sum = warp_sum(sum);
  }
  DEV float logit(i64 e) const { return load_at(p.logits, logits, e); }
  DEV float of_logit(float x) const {
    if (p.sigmoid) return 1.0f / (1.0f + expf(-x));
    return fabsf(top) == INFINITY_F ? 0.0f : expf(x - top) / sum;
  }
  DEV float of(i64 e) const { return of_logit(logit(e)); }
};

/// Whether (key, expert) comes before (other, its expert): larger first, ties to the lowest.
DEV bool is_before(float key, int e, float other, int f) { return key > other || (key == other && e < f); }
/// A number in the order of the keys; of none 0. Both zeros are one key.
DEV u32 order_of(float key) {
  const u32 bits = __float_as_uint(key + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
DEV u32 warp_largest(u32 v) {
#if __CUDA_ARCH__ >= 800
  u32 largest;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(largest) : "r"(v));
  return largest;
#else
#pragma unroll
  for (int o = 16; o; o >>= 1) v = max(v, __shfl_xor_sync(~0u, v, o));
  return v;
#endif
}

KERNEL(256) moe_router(const __grid_constant__ RouterParams p) {
  wait_for_inputs();
  const i64 row = (i64)blockIdx.x * 8 + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31, none = 0x7fffffff, experts = (int)p.experts;
  if (row >= p.rows.count) return;
  const Scores scores(p, row);
  char *id = place(p.id, p.rows, row), *weight = place(p.weight, p.rows, row);
  const auto key_of = [&](int e, float logit) {
    const float key = p.bias ? scores.of_logit(logit) + at<const float>(p.bias)[e] : logit;
    return key != key ? -INFINITY_F : key;
  };
  float keys[KEPT];  // of the logits that the lane keeps; those of others are made anew for each choice
  u32 open = 0;      // which of them are not chosen
#pragma unroll
  for (int i = 0; i < KEPT; ++i) {
    const bool there = lane + i * 32 < experts;
    keys[i] = there ? key_of(lane + i * 32, scores.kept[i]) : -INFINITY_F;
    open |= there ? 1u << i : 0u;
  }
  float last = INFINITY_F, sum = 0.0f;
  int chosen = -1;
  for (int u = 0; u < (int)p.used; ++u) {
    float best = -INFINITY_F, logit = 0.0f;  // of the lane
    int who = none;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {  // ties to the lowest, which comes first
      const bool better = (open >> i & 1) && (who == none || keys[i] > best);
      best = better ? keys[i] : best;
      logit = better ? scores.kept[i] : logit;
      who = better ? lane + i * 32 : who;
    }
    for (int e = lane + KEPT * 32; e < experts; e += 32) {
      const float of_e = scores.logit(e), key = key_of(e, of_e);
      if (u > 0 && !is_before(last, chosen, key, e)) continue;  // chosen before
      if (who == none || is_before(key, e, best, who)) best = key, logit = of_e, who = e;
    }
    const u32 order = who == none ? 0 : order_of(best), first = warp_largest(order);
    chosen = (int)~warp_largest(order == first ? ~(u32)who : 0);
    const int owner = chosen & 31;
    last = __shfl_sync(~0u, best, owner);
    if (lane == owner && chosen < KEPT * 32) open &= ~(1u << (chosen >> 5));
    const float score = scores.of_logit(__shfl_sync(~0u, logit, owner));
    sum += score;
    if (lane == 0) {
      *reinterpret_cast<int*>(id + u * p.id.step) = chosen;
      store_at(p.weight, weight, u, score);
    }
  }
  __syncwarp();
  const float divisor = p.renormalise && sum != 0.0f ? sum : 1.0f;
  for (i64 u = lane; u < p.used; u += 32) store_at(p.weight, weight, u, load_at(p.weight, weight, u) / divisor * p.scale);
}

KERNEL(256) moe_router_backward(const __grid_constant__ RouterParams p) {
  wait_for_inputs();
  const i64 row = (i64)blockIdx.x * 8 + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31;
  if (row >= p.rows.count) return;
  const Scores scores(p, row);
  const char *id = place(p.id, p.rows, row), *dweight = place(p.dweight, p.rows, row);
  char* dlogits = place(p.dlogits, p.rows, row);
  const auto expert = [&](i64 u) {
    const int e = *reinterpret_cast<const int*>(id + u * p.id.step);
    if (e < -1 || e >= p.experts) raise_fault(p.faults);
    return e >= 0 && e < p.experts ? e : -1;
  };
  float sum = 0.0f, inner = 0.0f;
  for (i64 u = lane; u < p.used; u += 32)
    if (const int e = expert(u); e >= 0) {
      sum += scores.of(e);
      inner = fmaf(load_at(p.dweight, dweight, u), scores.of(e), inner);
    }
  sum = warp_sum(sum);
  inner = warp_sum(inner);
  const bool divided = p.renormalise && sum != 0.0f;
  const float factor = p.scale / (divided ? sum : 1.0f), mean = divided ? inner / sum : 0.0f;
  float all = 0.0f;  // of softmax: what the other scores lose
  if (!p.sigmoid) {
    for (i64 u = lane; u < p.used; u += 32)
      if (const int e = expert(u); e >= 0) all = fmaf(scores.of(e), factor * (load_at(p.dweight, dweight, u) - mean), all);
    all = warp_sum(all);
  }
  for (int e = lane; e < p.experts; e += 32) {
    float slope = 0.0f;
    for (i64 u = 0; u < p.used; ++u)
      if (*reinterpret_cast<const int*>(id + u * p.id.step) == e) slope += factor * (load_at(p.dweight, dweight, u) - mean);
    const float score = scores.of(e);
    store_at(p.dlogits, dlogits, e, p.sigmoid ? score * slope / (1.0f + expf(scores.logit(e))) : score * (slope - all));
  }
}

KERNEL(256) moe_combine(const __grid_constant__ CombineParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const char *x = place(p.x, p.shape, i), *weight = place(p.weight, p.shape, i);
    float sum = 0.0f;
    for (i64 u = 0; u < p.used; ++u)
      sum = fmaf(*reinterpret_cast<const float*>(weight + u * p.weight_next), load_float(x + u * p.x_next, p.x.dtype, 0), sum);
    store_place(p.y, p.shape, i, sum);
  }
}
