// What lies between the products of a step of many rows: norms, SwiGLU and rotations, whose results are 16-bit operands of products.
#include "activation.cuh"
#include "kv.cuh"
#include "operand.cuh"
#include "quantise.cuh"

/// One block a row: y16 = x / rms(x) * (weight + offset). Rows of up to 4096 elements are read once.
KERNEL(256) norm16(const __grid_constant__ Norm16Params p) {
  const float *weight = at<const float>(p.weight), *x = at<const float>(p.x) + (i64)blockIdx.x * p.h;
  float4 v[4], w[4];
#pragma unroll
  for (int j = 0; j < 4; ++j)  // no kernel makes these
    if (const int i = (j * 256 + threadIdx.x) * 4; i < p.h) w[j] = *reinterpret_cast<const float4*>(weight + i);
  if (!p.settles) start_next();
  wait_previous();
  if (p.settles) start_next();
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
  const auto store = [&](int i, const float4& a, const float4& w) {
    const float4 y = make_float4(a.x * factor * (w.x + p.offset), a.y * factor * (w.y + p.offset), a.z * factor * (w.z + p.offset),
                                 a.w * factor * (w.w + p.offset));
    if (p.columns) {
      const i64 row = operand_row(blockIdx.x, p.columns, p.h / 256);
      store_operand_four(at<char>(p.y) + row, p.columns, i, y, p.half, p.places);
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (p.more[c].y) store_operand_four(at<char>(p.more[c].y) + row, p.columns, i, y, p.half, p.more[c].places);
      return;
    }
    *reinterpret_cast<uint2*>(at<u16>(p.y) + (i64)blockIdx.x * p.h + i) =
        make_uint2(pack16(y.x, y.y, p.half), pack16(y.z, y.w, p.half));
  };
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if ((j * 256 + threadIdx.x) * 4 < p.h) store((j * 256 + threadIdx.x) * 4, v[j], w[j]);
  for (int i = 4096 + threadIdx.x * 4; i < p.h; i += 1024) store(i, *reinterpret_cast<const float4*>(x + i), *reinterpret_cast<const float4*>(weight + i));
}

/// One block a row, whose elements stay with their threads: fours, 1024 apart. Rows are at most 8,192 elements, multiples of 32.
KERNEL(256) norm_row(const __grid_constant__ RowParams p) {
  SHARED_MEMORY(float4, own);  // [turn][thread]
  if (!p.settles) start_next();
  wait_previous();
  if (p.settles) start_next();
  const i64 from = (i64)blockIdx.x * p.h;
  const int turns = (p.h + 1023) / 1024;
  const auto element = [&](int j) { return (j * 256 + (int)threadIdx.x) * 4; };
  const auto here = [&](int j) -> float4& { return own[j * 256 + threadIdx.x]; };
  const auto factor_of = [&](int j, Address a) { return *reinterpret_cast<const float4*>(at<const float>(a) + element(j)); };
  float sum = 0.0f, mean = 0.0f;
  for (int j = 0; j < turns; ++j) {
    here(j) = element(j) < p.h ? *reinterpret_cast<const float4*>(at<const float>(p.x) + from + element(j)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 v = here(j);
    sum += p.layer ? (v.x + v.y) + (v.z + v.w) : fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, v.w * v.w)));
  }
  sum = block_sum(sum);
  if (p.layer) {
    mean = sum / (float)p.h;
    sum = 0.0f;
    for (int j = 0; j < turns; ++j) {
      if (element(j) >= p.h) continue;
      float4& v = here(j);
      v.x -= mean, v.y -= mean, v.z -= mean, v.w -= mean;
      sum += fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, v.w * v.w)));
    }
    sum = block_sum(sum);
  }
  const float factor = 1.0f / sqrtf(sum / (float)p.h + p.epsilon);
  sum = 0.0f;
  for (int j = 0; j < turns; ++j) {
    if (element(j) >= p.h) continue;
    float4& v = here(j);
    const float4 w = factor_of(j, p.weight);
    float4 b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (p.bias) b = factor_of(j, p.bias);
    if (p.added) b = *reinterpret_cast<const float4*>(at<const float>(p.added) + from + element(j));
    v = make_float4(fmaf(v.x * factor, w.x + p.offset, b.x), fmaf(v.y * factor, w.y + p.offset, b.y), fmaf(v.z * factor, w.z + p.offset, b.z),
                    fmaf(v.w * factor, w.w + p.offset, b.w));
    if (p.y) *reinterpret_cast<float4*>(at<float>(p.y) + from + element(j)) = v;
    sum += fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, v.w * v.w)));
  }
  const float next = p.next_weight && p.y16 ? 1.0f / sqrtf(block_sum(sum) / (float)p.h + p.next_epsilon) : 1.0f;
  for (int j = 0; j < turns; ++j) {
    const int i = element(j);
    if (i - 4 * (int)(threadIdx.x & 31) >= p.h) break;  // a warp has 128 elements, and its lanes go on together
    float4 v = here(j);
    const float squares = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, v.w * v.w)));
    if (p.next_weight && i < p.h) {
      const float4 w = factor_of(j, p.next_weight);
      v = make_float4(v.x * next * (w.x + p.next_offset), v.y * next * (w.y + p.next_offset), v.z * next * (w.z + p.next_offset),
                      v.w * next * (w.w + p.next_offset));
    }
    if (p.y16 && p.columns) store_operand_four(at<char>(p.y16) + operand_row(blockIdx.x, p.columns, p.h / 256), p.columns, i, v, p.half, p.places);
    else if (p.y16 && i < p.h) *reinterpret_cast<uint2*>(at<u16>(p.y16) + from + i) = make_uint2(pack16(v.x, v.y, p.half), pack16(v.z, v.w, p.half));
    if (p.out.codes) quantise_fours(v, squares, p.out, (i64)blockIdx.x * (p.h / 32) + i / 32, i < p.h);
  }
}

/// Packed floats to 16 bits, four a thread.
KERNEL(256) to16(const __grid_constant__ To16Params p) {
  wait_for_inputs();
  FOR_EACH(i, p.count / 4) {
    const float4 v = at<const float4>(p.x)[i];
    if (p.columns) {
      const i64 row = i * 4 / p.k;
      store_operand_four(at<char>(p.y) + operand_row(row, p.columns, p.k / 256), p.columns, i * 4 - row * p.k, v, p.half, p.places);
      continue;
    }
    at<uint2>(p.y)[i] = make_uint2(pack16(v.x, v.y, p.half), pack16(v.z, v.w, p.half));
  }
}

/// Eight numbers of f32, or of f16 times x_scale.
DEV void eight(const Glu16Params& p, i64 i, float* to) {
  if (p.x_scale == 0.0f) {
#pragma unroll
    for (int k = 0; k < 8; k += 4) {
      const float4 v = *reinterpret_cast<const float4*>(at<const float>(p.x) + i + k);
      to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
    }
    return;
  }
  const uint4 v = *reinterpret_cast<const uint4*>(at<const u16>(p.x) + i);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const u32 w = k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
    to[2 * k] = p.x_scale * from_half((u16)w), to[2 * k + 1] = p.x_scale * from_half((u16)(w >> 16));
  }
}

/// y16 = scale * activation(gate) * up, gate and up side by side in rows of 2 n, n a multiple of 8; less than 2^35 elements. Or that of x alone.
KERNEL(256) glu16(const __grid_constant__ Glu16Params p) {
  wait_for_inputs();
  const u32 eights = p.n / 8;
  FOR_EACH(i, p.rows * eights) {
    const i64 row = (u32)i / eights, c = (u32)i % eights * 8;
    float g[8], u[8];
    eight(p, row * (p.single ? 1 : 2) * p.n + c, g);
    if (!p.single) eight(p, row * 2 * p.n + p.n + c, u);
#pragma unroll
    for (int k = 0; k < 8; ++k) g[k] = p.scale * (p.single ? activated(g[k], p.activation) : gate_value(g[k], p.activation) * u[k]);
    const uint4 packed = make_uint4(pack16(g[0], g[1], p.half), pack16(g[2], g[3], p.half), pack16(g[4], g[5], p.half), pack16(g[6], g[7], p.half));
    if (!p.columns) {
      *reinterpret_cast<uint4*>(at<u16>(p.y) + row * p.n + c) = packed;
      continue;
    }
    char* to = at<char>(p.y) + operand_row(row, p.columns, p.n / 256);
    if (p.places) {
#pragma unroll
      for (int k = 0; k < 8; ++k) store_element(to, p.columns, at<const int>(p.places)[c + k], g[k], p.half);
      continue;
    }
    char* block = to + (i64)(c >> 8) * p.columns * OPERAND_PITCH;
    const int chunk = (c & 255) >> 3;
    *reinterpret_cast<uint4*>(block + swizzled_chunk(chunk)) = packed;
    const float sum = ((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + (g[6] + g[7]));
    *reinterpret_cast<u16*>(block + 512 + mean_place(chunk)) = to_half(cut_to_half(0.125f * sum));
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

/// Eight elements of a head that rotate together, or eight behind those that do: four from `first`, four from `second`.
struct Eight {
  int first, second;
  bool turns;
};
DEV Eight eight_of(const RopeKvParams& p, int chunk) {
  const int pairs = (int)p.rope_pairs;
  const bool turns = chunk * 4 < pairs;
  if (turns && p.rope_mode != 0) return {chunk * 4, chunk * 4 + pairs, true};
  return {chunk * 8, chunk * 8 + 4, turns};
}
/// Four elements from element `i` of f32 or f16, with a bias.
DEV float4 read_four(const RopeKvParams& p, Address x, i64 i, Address bias, int of_bias) {
  float4 v;
  if (p.x16) {
    const uint2 h = *reinterpret_cast<const uint2*>(at<const u16>(x) + i);
    v = make_float4(from_half((u16)h.x), from_half((u16)(h.x >> 16)), from_half((u16)h.y), from_half((u16)(h.y >> 16)));
  } else {
    v = *reinterpret_cast<const float4*>(at<const float>(x) + i);
  }
  if (bias) {
    const float* b = at<const float>(bias) + of_bias;
    v.x += b[0], v.y += b[1], v.z += b[2], v.w += b[3];
  }
  return v;
}
DEV void store_four(Address to, int dtype, i64 i, const float4& v) {
  if (dtype == F32) *reinterpret_cast<float4*>(at<float>(to) + i) = v;
  else *reinterpret_cast<uint2*>(at<u16>(to) + i) = make_uint2(pack16(v.x, v.y, dtype == F16), pack16(v.z, v.w, dtype == F16));
}

DEV void norm_four(float4& v, float factor, const float4& w, float offset) {
  v.x *= factor * (w.x + offset), v.y *= factor * (w.y + offset), v.z *= factor * (w.z + offset), v.w *= factor * (w.w + offset);
}
DEV float squares_of(const float4& a, float sum) { return fmaf(a.x, a.x, fmaf(a.y, a.y, fmaf(a.z, a.z, fmaf(a.w, a.w, sum)))); }
/// The factor of a norm of n elements of a row together, its queries or its keys; all threads of a block.
DEV float whole_factor(const RopeKvParams& p, Address x, i64 from, Address bias, int n, float epsilon) {
  float sum = 0.0f;
  for (int i = 4 * threadIdx.x; i < n; i += 4 * blockDim.x) sum = squares_of(read_four(p, x, from + i, bias, i), sum);
  return 1.0f / sqrtf(block_sum(sum) / (float)n + epsilon);
}
/// The same with its weight, of eight elements of head h.
DEV void norm_whole(const HeadNorms& norms, bool of_key, float factor, int head, const Eight& e, float4& a, float4& b) {
  const float* weight = at<const float>(of_key ? norms.k : norms.q) + head;
  const float offset = of_key ? norms.offset_k : norms.offset_q;
  norm_four(a, factor, *reinterpret_cast<const float4*>(weight + e.first), offset);
  norm_four(b, factor, *reinterpret_cast<const float4*>(weight + e.second), offset);
}
/// The norm of a head that `eights` neighbouring lanes have, a power of two of them; all of these come here together.
DEV void norm_eight(const HeadNorms& norms, bool of_key, int eights, const Eight& e, float4& a, float4& b) {
  const u32 lanes = eights == 32 ? ~0u : ((1u << eights) - 1) << ((threadIdx.x & 31) & ~(eights - 1));
  float sum = fmaf(a.x, a.x, fmaf(a.y, a.y, fmaf(a.z, a.z, a.w * a.w))) + fmaf(b.x, b.x, fmaf(b.y, b.y, fmaf(b.z, b.z, b.w * b.w)));
  for (int o = eights / 2; o; o >>= 1) sum += __shfl_xor_sync(lanes, sum, o);
  const float factor = 1.0f / sqrtf(sum / (float)(8 * eights) + (of_key ? norms.epsilon_k : norms.epsilon_q)), offset = of_key ? norms.offset_k : norms.offset_q;
  const float* weight = at<const float>(of_key ? norms.k : norms.q);
  norm_four(a, factor, *reinterpret_cast<const float4*>(weight + e.first), offset);
  norm_four(b, factor, *reinterpret_cast<const float4*>(weight + e.second), offset);
}

/// rope_kv where heads are whole eights and fours of pairs turn: 16 bytes a load.
KERNEL(256) rope_kv_8(const __grid_constant__ RopeKvParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x;
  const int d = p.k.d, dv = p.v.d, eights = d / 8, eights_v = dv / 8, position = at<const int>(p.k.position)[t];
  const bool inside = position >= 0 && position < p.rope_positions;
  if (position >= p.rope_positions && threadIdx.x == 0) raise_fault(p.faults);
  const i64 slot = page_slot(p.k, t, p.faults), place = slot < 0 ? 0 : slot / p.k.page * p.k.kv_heads * p.k.page + slot % p.k.page;
  const int of_q = p.heads * eights, of_k = slot < 0 ? 0 : p.k.kv_heads * eights, of_v = slot < 0 ? 0 : p.v.kv_heads * eights_v;
  float whole_q = 0.0f, whole_k = 0.0f;
  if (p.norms.rows) {
    whole_q = whole_factor(p, p.q, t * p.q_row, p.bias_q, p.heads * d, p.norms.epsilon_q);
    whole_k = whole_factor(p, p.keys, t * p.k_row, p.bias_k, p.k.kv_heads * d, p.norms.epsilon_k);
    // Each block of a row sums all of it: queries are not turned where they lie.
  }
#pragma unroll 4
  for (int n = blockIdx.y * 256 + threadIdx.x; n < of_q + of_k; n += 256 * gridDim.y) {
    const bool of_key = n >= of_q;
    const int m = of_key ? n - of_q : n, h = m / eights;
    const Eight e = eight_of(p, m % eights);
    const Address x = of_key ? p.keys : p.q, bias = of_key ? p.bias_k : p.bias_q;
    const i64 from = t * (of_key ? p.k_row : p.q_row) + h * d;
    float4 a = read_four(p, x, from + e.first, bias, h * d + e.first), b = read_four(p, x, from + e.second, bias, h * d + e.second);
    if (p.norms.rows) norm_whole(p.norms, of_key, of_key ? whole_k : whole_q, h * d, e, a, b);
    else if (p.norms.q) norm_eight(p.norms, of_key, eights, e, a, b);
    if (e.turns) {
      float4 u = make_float4(0.0f, 0.0f, 0.0f, 0.0f), w = u;  // of four pairs; out of range: zeros
      if (inside) {
        const float4* turns = reinterpret_cast<const float4*>(at<const float2>(p.rope) + (i64)position * p.rope_pairs + m % eights * 4);
        u = turns[0], w = turns[1];
      }
      if (p.rope_mode != 0) {  // pairs (a.x, b.x) to (a.w, b.w)
        const float4 c = make_float4(a.x * u.x - b.x * u.y, a.y * u.z - b.y * u.w, a.z * w.x - b.z * w.y, a.w * w.z - b.w * w.w);
        b = make_float4(a.x * u.y + b.x * u.x, a.y * u.w + b.y * u.z, a.z * w.y + b.z * w.x, a.w * w.w + b.w * w.z);
        a = c;
      } else {  // pairs (a.x, a.y), (a.z, a.w), (b.x, b.y), (b.z, b.w)
        a = make_float4(a.x * u.x - a.y * u.y, a.x * u.y + a.y * u.x, a.z * u.z - a.w * u.w, a.z * u.w + a.w * u.z);
        b = make_float4(b.x * w.x - b.y * w.y, b.x * w.y + b.y * w.x, b.z * w.z - b.w * w.w, b.z * w.w + b.w * w.z);
      }
    }
    const Address to = of_key ? p.k.cache : p.q_out;
    const int dtype = of_key ? p.k.dtype : p.q_dtype;
    const i64 first = of_key ? (place + h * p.k.page) * d : (t * p.heads + h) * d;
    store_four(to, dtype, first + e.first, a);
    store_four(to, dtype, first + e.second, b);
  }
#pragma unroll 2
  for (int n = blockIdx.y * 256 + threadIdx.x; n < of_v; n += 256 * gridDim.y) {
    const int h = n / eights_v, i = n % eights_v * 8;
    const i64 from = t * p.v_row + h * dv + i, to = (place + h * p.v.page) * dv + i;
    const float4 a = read_four(p, p.values, from, p.bias_v, h * dv + i), b = read_four(p, p.values, from + 4, p.bias_v, h * dv + i + 4);
    store_four(p.v.cache, p.v.dtype, to, a);
    store_four(p.v.cache, p.v.dtype, to + 4, b);
  }
}
