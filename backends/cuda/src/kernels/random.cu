// random_uniform and dropout: one thread four elements, which share a counter.
#include "philox.cuh"
#include "random.hpp"
#include "strided.cuh"

DEV float uniform_of(const uint4& words, int j) { return (float)unit_interval(j == 0 ? words.x : j == 1 ? words.y : j == 2 ? words.z : words.w); }

KERNEL(256) random_uniform(const __grid_constant__ RandomParams p) {
  wait_for_inputs();
  const u32 *seed = at<const u32>(p.seed), step = *at<const u32>(p.step);
  FOR_EACH(quad, (p.shape.count + 3) / 4) {
    const uint4 words = philox((u32)quad, step, p.salt, seed[0], seed[1]);
    for (int j = 0; j < 4 && quad * 4 + j < p.shape.count; ++j) store_place(p.y, p.shape, quad * 4 + j, uniform_of(words, j));
  }
}

KERNEL(256) dropout(const __grid_constant__ RandomParams p) {
  wait_for_inputs();
  const u32 *seed = at<const u32>(p.seed), step = *at<const u32>(p.step);
  const float kept = 1.0f - p.p;
  FOR_EACH(quad, (p.shape.count + 3) / 4) {
    const uint4 words = philox((u32)quad, step, p.salt, seed[0], seed[1]);
    for (int j = 0; j < 4 && quad * 4 + j < p.shape.count; ++j) {
      const i64 i = quad * 4 + j;
      store_place(p.y, p.shape, i, uniform_of(words, j) >= p.p ? load_place(p.x, p.shape, i) / kept : 0.0f);
    }
  }
}
