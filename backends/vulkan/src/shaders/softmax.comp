#version 460
// Rows of softmax(mask(softcap(scale * x))), with sinks; a workgroup a row. Or its gradient. Constant 1: backward.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
#include "alibi.glsl"
layout(constant_id = 1) const int backward = 0;
STORED(SoftmaxParams)
#define p (ParamsAt(stored).params)
#define AT(base, view, i) (base + uint64_t(int64_t(i) * int64_t(view.step)))

float hidden_or(uint64_t x, uint64_t mask, uint k, int last, float alibi) {
  if (p.causal != 0 && int(k) > last) return -INFINITY;
  float v = load_float(AT(x, p.x, k), p.x.dtype) * p.scale;
  if (p.softcap > 0.0) v = p.softcap * tanh_of(v / p.softcap);
  if (mask != 0ul) {
    const float m = load_float(AT(mask, p.mask, k), p.mask.dtype);
    v = m == -INFINITY ? m : v + alibi * m;
  }
  return v;
}

void forward(uint row) {
  ADDRESS(x, p.x, p.rows, row)
  ADDRESS(y, p.y, p.rows, row)
  uint64_t mask = 0ul;
  if (p.mask.data != 0ul) {
    ADDRESS(at, p.mask, p.rows, row)
    mask = at;
  }
  const uint query = row % p.queries, head = row / p.queries % p.heads;
  const int64_t wide = int64_t(query) + p.query_offset;
  const int last = int(clamp(wide, int64_t(-1), int64_t(0x7ffffffe)));
  const int64_t first_hidden = p.window > 0 ? wide - int64_t(p.window) : int64_t(-1);
  const float alibi = alibi_slope(p.max_bias, head, p.heads);
  float most = -INFINITY;
  FOR_EACH_LANE(k, p.n) {
    const float v = int64_t(k) <= first_hidden ? -INFINITY : hidden_or(x, mask, k, last, alibi);
    most = larger(v, most);
  }
  most = group_max(most);
  float sink = -INFINITY;
  if (p.sinks != 0ul) {
    sink = load_float(p.sinks + uint64_t(head) * uint64_t(p.sink_step), p.sink_dtype);
    most = larger(sink, most);
  }
  const float shift = most == -INFINITY ? 0.0 : most;
  float sum = 0.0;
  FOR_EACH_LANE(k, p.n) {
    const float v = int64_t(k) <= first_hidden ? -INFINITY : hidden_or(x, mask, k, last, alibi);
    if (v != -INFINITY) sum += exp_of(v - shift);
  }
  sum = group_sum(sum);
  if (sink != -INFINITY) sum += exp_of(sink - shift);
  FOR_EACH_LANE(k, p.n) {
    const float v = int64_t(k) <= first_hidden ? -INFINITY : hidden_or(x, mask, k, last, alibi);
    store_float(AT(y, p.y, k), p.y.dtype, v == -INFINITY || sum == 0.0 ? 0.0 : exp_of(v - shift) / sum);
  }
}

/// x holds the probabilities, mask their gradient.
void gradient(uint row) {
  ADDRESS(x, p.x, p.rows, row)
  ADDRESS(dy, p.mask, p.rows, row)
  ADDRESS(y, p.y, p.rows, row)
  float sum = 0.0;
  FOR_EACH_LANE(k, p.n) {
    const float probability = load_float(AT(x, p.x, k), p.x.dtype);
    if (probability != 0.0) sum += probability * load_float(AT(dy, p.mask, k), p.mask.dtype);
  }
  sum = group_sum(sum);
  FOR_EACH_LANE(k, p.n) {
    const float probability = load_float(AT(x, p.x, k), p.x.dtype);
    const float v = p.scale * probability * (load_float(AT(dy, p.mask, k), p.mask.dtype) - sum);
    store_float(AT(y, p.y, k), p.y.dtype, probability == 0.0 ? 0.0 : v);
  }
}

void main() {
  FOR_EACH_ROW(row, p.rows.count) {
    if (backward != 0) gradient(row);
    else forward(row);
  }
}
