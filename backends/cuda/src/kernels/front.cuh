// Of products of one row: what raw activations become before they are quantised, in registers of a block that has them all.
#pragma once
#include "prelude.cuh"

/// A sum over all threads is in the parts of their warps; a second one does not wait for the first to be read.
template <int WARPS> struct FrontSums { float of[2][WARPS]; };

/// Asks for what is read in a moment, without a register for it.
DEV void ask_ahead(const void* p) {
#ifndef QUERN_EMULATED_CARD
  asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
#endif
}

/// Thread `thread` of THREADS has quads `thread`, `thread` + THREADS and so on of a row of k; beyond it zeros. `meet`: a barrier of all.
template <int THREADS, int N, class Meet>
DEV void make_front(const Front& f, float4 (&x)[N], int k, int thread, FrontSums<THREADS / 32>& sums, Meet meet) {
  const int quads = k / 4;
  const bool layer = f.kind == front_layer_norm;
  const float4* weight = at<const float4>(f.weight);
  float4 b[N];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int i = thread + n * THREADS;
    const Address beside = layer ? f.bias : f.added;
    if (i < quads) ask_ahead(weight + i);
    b[n] = beside && i < quads ? __ldcg(at<const float4>(beside) + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  const auto sum_of = [&](float v, int which) {
    v = warp_sum(v);
    if ((thread & 31) == 0) sums.of[which][thread >> 5] = v;
    meet();
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) all += sums.of[which][i];
    return all;
  };
  float mean = 0.0f;
  if (layer) {
    float v = 0.0f;
#pragma unroll
    for (int n = 0; n < N; ++n) v += (x[n].x + x[n].y) + (x[n].z + x[n].w);
    mean = sum_of(v, 0) / (float)k;
  }
  float squares = 0.0f;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (thread + n * THREADS >= quads) continue;  // what lies beyond the row is no mean away from 0
    x[n].x -= mean, x[n].y -= mean, x[n].z -= mean, x[n].w -= mean;
    squares = fmaf(x[n].x, x[n].x, fmaf(x[n].y, x[n].y, fmaf(x[n].z, x[n].z, fmaf(x[n].w, x[n].w, squares))));
  }
  const float factor = 1.0f / sqrtf(sum_of(squares, 1) / (float)k + f.epsilon);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int i = thread + n * THREADS;
    if (i >= quads) continue;
    const float4 w = weight[i];
    x[n] = make_float4(fmaf(x[n].x * factor, w.x + f.offset, b[n].x), fmaf(x[n].y * factor, w.y + f.offset, b[n].y),
                       fmaf(x[n].z * factor, w.z + f.offset, b[n].z), fmaf(x[n].w * factor, w.w + f.offset, b[n].w));
    if (f.sum && blockIdx.x == 0) at<float4>(f.sum)[i] = x[n];
  }
}
