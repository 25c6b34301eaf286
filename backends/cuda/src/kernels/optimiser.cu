// adamw, sgd and clip_scale: one thread an element.
#include "optimiser.hpp"
#include "strided.cuh"

/// Elements keep their range under gradients of 1e20: the step is made of g / root, never of g^2 alone.
KERNEL(256) adamw(const __grid_constant__ OptimiserParams p) {
  wait_for_inputs();
  const int step = *at<const int>(p.step);
  if (step < 1) {
    if (blockIdx.x == 0 && threadIdx.x == 0 && (p.live.count != 1 || is_live(p.live, 0))) raise_fault_non_finite(p.faults);
    return;
  }
  const float lr = *at<const float>(p.lr), scale = p.scale ? *at<const float>(p.scale) : 1.0f;
  const float beta1 = (float)p.beta1, beta2 = (float)p.beta2, rest1 = (float)(1.0 - p.beta1), rest2 = (float)(1.0 - p.beta2);
  const float rate = (float)((double)lr / -expm1((double)step * log(p.beta1)));
  const float root = (float)(1.0 / sqrt(-expm1((double)step * log(p.beta2))));
  const float epsilon = (float)p.epsilon, kept = lr * p.decay;
  FOR_EACH(i, p.shape.count) {
    if (!is_live(p.live, i / p.elements_a_row)) continue;
    const float g = load_place(p.gradient, p.shape, i) * scale;
    const float m = fmaf(beta1, load_place(p.m, p.shape, i), rest1 * g);
    const float v = fmaf(beta2, load_place(p.v, p.shape, i), rest2 * g * g);
    const float w = p.master.data ? load_place(p.master, p.shape, i) : load_place(p.w, p.shape, i);
    const float after = w - (rate * m / (sqrtf(v) * root + epsilon) + kept * w);
    store_place(p.m, p.shape, i, m);
    store_place(p.v, p.shape, i, v);
    if (p.master.data) store_place(p.master, p.shape, i, after);
    store_place(p.w, p.shape, i, after);
  }
}

KERNEL(256) sgd(const __grid_constant__ OptimiserParams p) {
  wait_for_inputs();
  const float lr = *at<const float>(p.lr), scale = p.scale ? *at<const float>(p.scale) : 1.0f;
  FOR_EACH(i, p.shape.count) {
    if (!is_live(p.live, i / p.elements_a_row)) continue;
    float d = load_place(p.gradient, p.shape, i) * scale;
    if (p.m.data) {
      if (p.momentum != 0.0f) d = fmaf(p.momentum, load_place(p.m, p.shape, i), d);
      store_place(p.m, p.shape, i, d);
    }
    const float w = load_place(p.w, p.shape, i);
    store_place(p.w, p.shape, i, fmaf(-lr, fmaf(p.decay, w, d), w));
  }
}

KERNEL(32) clip_scale(const __grid_constant__ ClipParams p) {
  wait_for_inputs();
  if (threadIdx.x != 0) return;
  const float loss_scale = p.loss_scale ? *at<const float>(p.loss_scale) : 1.0f;
  const float clipped = p.most / (*at<const float>(p.norm) / loss_scale);
  *at<float>(p.scale) = (clipped > 1.0f ? 1.0f : clipped) / loss_scale;
}
