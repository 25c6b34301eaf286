// What lies between the products of a step of many rows: norms, SwiGLU and rotations, whose results are 16-bit operands of products.
#include "kv.cuh"
#include "operand.cuh"

/// One block a row: y16 = x / rms(x) * (weight + offset). Rows of up to 4096 elements are read once.
KERNEL(256) norm16(const __grid_constant__ Norm16Params p) {
  const float *weight = at<const float>(p.weight), *x = at<const float>(p.x) + (i64)blockIdx.x * p.h;
  wait_for_inputs();
  float4 v[4];
  float sum = 0.0f;
  const auto add = [&](const float4& a) { sum = fmaf(a.x, a.x, fmaf(a.y, a.y, fmaf(a.z, a.z, fmaf(a.w, a.w, sum)))); };
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int i = (j * 256 + threadIdx.x) * 4;
    if (i < p.h) v[j] = *reinterpret_cast<const float4*>(x + i);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if ((j * 256 + threadIdx.x) * 4 < p.h) add(v[j]);
  for (int i = 4096 + threadIdx.x * 4; i < p.h; i += 1024) add(*reinterpret_cast<const float4*>(x + i));
  const float factor = 1.0f / sqrtf(block_sum(sum) / (float)p.h + p.epsilon);
  const auto store = [&](int i, const float4& a) {
    const float4 w = *reinterpret_cast<const float4*>(weight + i);
    const float4 y = make_float4(a.x * factor * (w.x + p.offset), a.y * factor * (w.y + p.offset), a.z * factor * (w.z + p.offset),
                                 a.w * factor * (w.w + p.offset));
    if (p.columns) return store_operand_four(at<char>(p.y) + operand_row(blockIdx.x, p.columns, p.h / 256), p.columns, i, y, p.half);
    *reinterpret_cast<uint2*>(at<u16>(p.y) + (i64)blockIdx.x * p.h + i) =
        make_uint2(pack16(y.x, y.y, p.half), pack16(y.z, y.w, p.half));
  };
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if ((j * 256 + threadIdx.x) * 4 < p.h) store((j * 256 + threadIdx.x) * 4, v[j]);
  for (int i = 4096 + threadIdx.x * 4; i < p.h; i += 1024) store(i, *reinterpret_cast<const float4*>(x + i));
}

/// Packed floats to 16 bits, four a thread.
KERNEL(256) to16(const __grid_constant__ To16Params p) {
  wait_for_inputs();
  FOR_EACH(i, p.count / 4) {
    const float4 v = at<const float4>(p.x)[i];
    if (p.columns) {
      const i64 row = i * 4 / p.k;
      store_operand_four(at<char>(p.y) + operand_row(row, p.columns, p.k / 256), p.columns, i * 4 - row * p.k, v, p.half);
      continue;
    }
    at<uint2>(p.y)[i] = make_uint2(pack16(v.x, v.y, p.half), pack16(v.z, v.w, p.half));
  }
}

/// Four numbers of f32, or of f16 times x_scale.
DEV float4 four(const Glu16Params& p, i64 i) {
  if (p.x_scale == 0.0f) return *reinterpret_cast<const float4*>(at<const float>(p.x) + i);
  const uint2 v = *reinterpret_cast<const uint2*>(at<const u16>(p.x) + i);
  return make_float4(p.x_scale * from_half((u16)v.x), p.x_scale * from_half((u16)(v.x >> 16)), p.x_scale * from_half((u16)v.y),
                     p.x_scale * from_half((u16)(v.y >> 16)));
}

/// y16 = scale * silu(gate) * up, gate and up side by side in rows of 2 n; less than 2^34 elements.
KERNEL(256) glu16(const __grid_constant__ Glu16Params p) {
  wait_for_inputs();
  const u32 quads = p.n / 4;
  FOR_EACH(i, p.rows * quads) {
    const i64 row = (u32)i / quads, c = (u32)i % quads * 4;
    const float4 g = four(p, row * 2 * p.n + c), u = four(p, row * 2 * p.n + p.n + c);
    *reinterpret_cast<uint2*>(at<u16>(p.y) + row * p.n + c) =
        make_uint2(pack16(p.scale * (SILU(g.x) * u.x), p.scale * (SILU(g.y) * u.y), p.half),
                   pack16(p.scale * (SILU(g.z) * u.z), p.scale * (SILU(g.w) * u.w), p.half));
  }
}

/// Two neighbouring elements of a tensor of floats, at an even element.
DEV void store_two(Address to, int dtype, i64 i, float a, float b) {
  if (dtype == F32) *reinterpret_cast<float2*>(at<float>(to) + i) = make_float2(a, b);
  else *reinterpret_cast<u32*>(at<u16>(to) + i) = pack16(a, b, dtype == F16);
}

/// Elements i to i + 3 (i a multiple of 4) of a head of d in the order of the pairs: two pairs that turn, or what lies behind those.
/// `to` is the head's first element in `out`.
DEV void turn_four(const RopeKvParams& p, const float* x, const float* bias, int position, int i, Address out, int dtype, i64 to) {
  const int pairs = (int)p.rope_pairs;
  const bool turns = i < 2 * pairs, halves = turns && p.rope_mode != 0;
  const int first = halves ? i / 2 : i, second = halves ? i / 2 + pairs : i + 2;
  float2 a = *reinterpret_cast<const float2*>(x + first), b = *reinterpret_cast<const float2*>(x + second);
  if (bias) {
    a.x += bias[first];
    a.y += bias[first + 1];
    b.x += bias[second];
    b.y += bias[second + 1];
  }
  if (turns) {
    float4 turn = make_float4(0.0f, 0.0f, 0.0f, 0.0f);  // of pairs i / 2 and i / 2 + 1; out of range: zeros
    if (position >= 0 && position < p.rope_positions)
      turn = *reinterpret_cast<const float4*>(at<const float2>(p.rope) + (i64)position * pairs + i / 2);
    if (halves) {  // pairs (a.x, b.x) and (a.y, b.y)
      const float2 u = make_float2(a.x * turn.x - b.x * turn.y, a.y * turn.z - b.y * turn.w);
      b = make_float2(a.x * turn.y + b.x * turn.x, a.y * turn.w + b.y * turn.z);
      a = u;
    } else {  // pairs (a.x, a.y) and (b.x, b.y)
      a = make_float2(a.x * turn.x - a.y * turn.y, a.x * turn.y + a.y * turn.x);
      b = make_float2(b.x * turn.z - b.y * turn.w, b.x * turn.w + b.y * turn.z);
    }
  }
  store_two(out, dtype, to + first, a.x, a.y);
  store_two(out, dtype, to + second, b.x, b.y);
}

/// Blocks of one x are a row's: queries turned and stored, keys turned and written to the cache, values written to the cache. Heads are whole
/// fours, and so are the elements that turn.
KERNEL(256) rope_kv(const __grid_constant__ RopeKvParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x;
  const int d = p.k.d, dv = p.v.d, quads = d / 4, quads_v = dv / 4, position = at<const int>(p.k.position)[t];
  if (position >= p.rope_positions && threadIdx.x == 0) raise_fault(p.faults);
  const float *queries = at<const float>(p.q) + t * p.q_row, *keys = at<const float>(p.keys) + t * p.k_row;
  const float* values = at<const float>(p.values) + t * p.v_row;
  const i64 slot = page_slot(p.k, t, p.faults), place = slot < 0 ? 0 : slot / p.k.page * p.k.kv_heads * p.k.page + slot % p.k.page;
  const int of_q = p.heads * quads, of_k = slot < 0 ? 0 : p.k.kv_heads * quads, of_v = slot < 0 ? 0 : p.v.kv_heads * quads_v;
#pragma unroll 2
  for (int e = blockIdx.y * 256 + threadIdx.x; e < of_q + of_k; e += 256 * gridDim.y) {
    const bool of_key = e >= of_q;
    const int n = of_key ? e - of_q : e, h = n / quads, i = n % quads * 4;
    const Address bias = of_key ? p.bias_k : p.bias_q;
    turn_four(p, (of_key ? keys : queries) + h * d, bias ? at<const float>(bias) + h * d : nullptr, position, i,
              of_key ? p.k.cache : p.q_out, of_key ? p.k.dtype : p.q_dtype, of_key ? (place + h * p.k.page) * d : (t * p.heads + h) * d);
  }
#pragma unroll 2
  for (int e = blockIdx.y * 256 + threadIdx.x; e < of_v; e += 256 * gridDim.y) {
    const int h = e / quads_v, i = e % quads_v * 4;
    float4 v = *reinterpret_cast<const float4*>(values + h * dv + i);
    if (p.bias_v) {
      const float* bias = at<const float>(p.bias_v) + h * dv + i;
      v = make_float4(v.x + bias[0], v.y + bias[1], v.z + bias[2], v.w + bias[3]);
    }
    const i64 to = (place + h * p.v.page) * dv + i;
    store_two(p.v.cache, p.v.dtype, to, v.x, v.y);
    store_two(p.v.cache, p.v.dtype, to + 2, v.z, v.w);
  }
}
