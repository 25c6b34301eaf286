// What lies between the products of a step of many rows: norms, SwiGLU and rotations, whose results are 16-bit operands of products.
#include "kv.cuh"
#include "matrix.cuh"

/// One block a row: y16 = x / rms(x) * (weight + offset).
KERNEL(256) norm16(const __grid_constant__ Norm16Params p) {
  wait_for_inputs();
  const float* x = at<const float>(p.x) + (i64)blockIdx.x * p.h;
  float sum = 0.0f;
  for (int i = threadIdx.x * 4; i < p.h; i += 1024) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    sum = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, sum))));
  }
  const float factor = 1.0f / sqrtf(block_sum(sum) / (float)p.h + p.epsilon);
  for (int i = threadIdx.x * 4; i < p.h; i += 1024) {
    const float4 v = *reinterpret_cast<const float4*>(x + i), w = *reinterpret_cast<const float4*>(at<const float>(p.weight) + i);
    *reinterpret_cast<uint2*>(at<u16>(p.y) + (i64)blockIdx.x * p.h + i) =
        make_uint2(pack16(v.x * factor * (w.x + p.offset), v.y * factor * (w.y + p.offset), p.half),
                   pack16(v.z * factor * (w.z + p.offset), v.w * factor * (w.w + p.offset), p.half));
  }
}

/// Packed floats to 16 bits, four a thread.
KERNEL(256) to16(const __grid_constant__ To16Params p) {
  wait_for_inputs();
  FOR_EACH(i, p.count / 4) {
    const float4 v = at<const float4>(p.x)[i];
    at<uint2>(p.y)[i] = make_uint2(pack16(v.x, v.y, p.half), pack16(v.z, v.w, p.half));
  }
}

/// y16 = scale * silu(gate) * up, gate and up side by side in rows of 2 n.
KERNEL(256) glu16(const __grid_constant__ Glu16Params p) {
  wait_for_inputs();
  const int quads = p.n / 4;
  FOR_EACH(i, p.rows * quads) {
    const i64 row = i / quads, c = i % quads * 4;
    const float4 g = *reinterpret_cast<const float4*>(at<const float>(p.x) + row * 2 * p.n + c);
    const float4 u = *reinterpret_cast<const float4*>(at<const float>(p.x) + row * 2 * p.n + p.n + c);
    *reinterpret_cast<uint2*>(at<u16>(p.y) + row * p.n + c) =
        make_uint2(pack16(p.scale * (SILU(g.x) * u.x), p.scale * (SILU(g.y) * u.y), p.half),
                   pack16(p.scale * (SILU(g.z) * u.z), p.scale * (SILU(g.w) * u.w), p.half));
  }
}

/// Elements of a head of row t: a pair that turns, or the two that follow one another behind those.
DEV void rotated(const RopeKvParams& p, const float* x, const float* bias, int position, int i, int& first, int& second, float2& v) {
  const bool turns = i < p.rope_pairs;
  first = turns && p.rope_mode != 0 ? i : 2 * i;
  second = turns && p.rope_mode != 0 ? i + (int)p.rope_pairs : 2 * i + 1;
  float a = x[first], b = x[second];
  if (bias) {
    a += bias[first];
    b += bias[second];
  }
  v = make_float2(a, b);
  if (!turns) return;
  if (position < 0 || position >= p.rope_positions) {
    v = make_float2(0.0f, 0.0f);
    return;
  }
  const float2 turn = at<const float2>(p.rope)[(i64)position * p.rope_pairs + i];
  v = make_float2(a * turn.x - b * turn.y, a * turn.y + b * turn.x);
}

/// One block a row: queries turned and stored, keys turned and written to the cache, values written to the cache.
KERNEL(256) rope_kv(const __grid_constant__ RopeKvParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x;
  const int d = p.k.d, dv = p.v.d, half_d = d / 2, half_dv = dv / 2, position = at<const int>(p.k.position)[t];
  if (position >= p.rope_positions && threadIdx.x == 0) raise_fault(p.faults);
  const float* queries = at<const float>(p.q) + t * p.q_row;
  for (int e = threadIdx.x; e < p.heads * half_d; e += 256) {
    const int h = e / half_d, i = e % half_d;
    int first, second;
    float2 v;
    rotated(p, queries + h * d, p.bias_q ? at<const float>(p.bias_q) + h * d : nullptr, position, i, first, second, v);
    const i64 to = (t * p.heads + h) * d;
    store_float(at<char>(p.q_out), p.q_dtype, to + first, v.x);
    store_float(at<char>(p.q_out), p.q_dtype, to + second, v.y);
  }
  const i64 slot = page_slot(p.k, t, p.faults);
  if (slot < 0) return;
  const float *keys = at<const float>(p.keys) + t * p.k_row, *values = at<const float>(p.values) + t * p.v_row;
  for (int e = threadIdx.x; e < p.k.kv_heads * half_d; e += 256) {
    const int h = e / half_d, i = e % half_d;
    int first, second;
    float2 v;
    rotated(p, keys + h * d, p.bias_k ? at<const float>(p.bias_k) + h * d : nullptr, position, i, first, second, v);
    const i64 to = cache_element(p.k, slot, h);
    store_float(at<char>(p.k.cache), p.k.dtype, to + first, v.x);
    store_float(at<char>(p.k.cache), p.k.dtype, to + second, v.y);
  }
  for (int e = threadIdx.x; e < p.v.kv_heads * half_dv; e += 256) {
    const int h = e / half_dv, i = e % half_dv * 2;
    const i64 to = cache_element(p.v, slot, h) + i;
    const float* bias = p.bias_v ? at<const float>(p.bias_v) + h * dv : nullptr;
#pragma unroll
    for (int j = 0; j < 2; ++j) store_float(at<char>(p.v.cache), p.v.dtype, to + j, values[h * dv + i + j] + (bias ? bias[i + j] : 0.0f));
  }
}
