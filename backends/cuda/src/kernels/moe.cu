// moe_router and its gradient, one warp a token; moe_combine, one thread an element.
#include "moe.hpp"
#include "strided.cuh"

/// The scores of a token's experts: softmax (0 where the largest logit is infinite) or sigmoid.
struct Scores {
  const RouterParams& p;
  const char* logits;
  float top = -INFINITY_F, sum = 0.0f;

  DEV Scores(const RouterParams& params, i64 row) : p(params), logits(place(params.logits, params.rows, row)) {
    if (p.sigmoid) return;
    for (i64 e = threadIdx.x & 31; e < p.experts; e += 32) top = fmaxf(top, load_at(p.logits, logits, e));
    top = warp_max(top);
    if (fabsf(top) == INFINITY_F) return;
    for (i64 e = threadIdx.x & 31; e < p.experts; e += 32) sum += expf(load_at(p.logits, logits, e) - top);
    sum = warp_sum(sum);
  }
  DEV float logit(i64 e) const { return load_at(p.logits, logits, e); }
  DEV float of(i64 e) const {
    const float x = logit(e);
    if (p.sigmoid) return 1.0f / (1.0f + expf(-x));
    return fabsf(top) == INFINITY_F ? 0.0f : expf(x - top) / sum;
  }
};

/// Whether (key, expert) comes before (other, its expert): larger first, ties to the lowest.
DEV bool is_before(float key, int e, float other, int f) { return key > other || (key == other && e < f); }

enum { KEPT = 8 };

KERNEL(256) moe_router(const __grid_constant__ RouterParams p) {
  wait_for_inputs();
  const i64 row = (i64)blockIdx.x * 8 + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31, none = 0x7fffffff;
  if (row >= p.rows.count) return;
  const Scores scores(p, row);
  char *id = place(p.id, p.rows, row), *weight = place(p.weight, p.rows, row);
  const auto key_of = [&](int e) {
    const float key = p.bias ? scores.of(e) + at<const float>(p.bias)[e] : scores.logit(e);
    return key != key ? -INFINITY_F : key;
  };
  float kept[KEPT];  // keys of the lane's first experts; those of others are made anew for each choice
#pragma unroll
  for (int i = 0; i < KEPT; ++i) kept[i] = lane + i * 32 < p.experts ? key_of(lane + i * 32) : -INFINITY_F;
  float last = INFINITY_F, sum = 0.0f;
  int chosen = -1;
  for (i64 u = 0; u < p.used; ++u) {
    float best = -INFINITY_F;
    int who = none;
    const auto consider = [&](float key, int e) {
      if (u > 0 && !is_before(last, chosen, key, e)) return;  // chosen before
      if (who == none || is_before(key, e, best, who)) {
        best = key;
        who = e;
      }
    };
#pragma unroll
    for (int i = 0; i < KEPT; ++i)
      if (lane + i * 32 < p.experts) consider(kept[i], lane + i * 32);
    for (int e = lane + KEPT * 32; e < p.experts; e += 32) consider(key_of(e), e);
#pragma unroll
    for (int o = 16; o; o >>= 1) {
      const float key = __shfl_xor_sync(~0u, best, o);
      const int e = __shfl_xor_sync(~0u, who, o);
      if (e != none && (who == none || is_before(key, e, best, who))) {
        best = key;
        who = e;
      }
    }
    last = best;
    chosen = who;
    const float score = scores.of(who);
    sum += score;
    if (lane == 0) {
      *reinterpret_cast<int*>(id + u * p.id.step) = who;
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
