#version 460
// Gradients of norms. With g = dy * weight, r = 1 / rms and c = x (x - mean for layer_norm): dx = r g - c r^3 mean(g c), less r mean(g) for
// layer_norm. dweight and dbias are sums over rows, in parts of 64 rows or more side by side, whose sums are added in order. Outputs may be inputs:
// nothing is written before all that reads it has run.
//
// Constants 1 and 2 are the norm and the pass of modes.h.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
#include "group.glsl"
layout(constant_id = 1) const int kind = 0;
layout(constant_id = 2) const int pass = 0;
STORED(NormBackwardParams)
#define p (ParamsAt(stored).params)

#define AT(base, view, i) (base + uint64_t(int64_t(i) * int64_t(view.step)))

float factor_of(uint i) { return p.weight == 0ul ? 1.0 : Float(p.weight + uint64_t(i) * 4ul).v + p.offset; }
/// As row_live, by a load of memory that is there in any case: see quirks.def, null_loads.
bool live(uint row) {
  const int told = Int(p.predicate != 0ul ? p.predicate + uint64_t(row / p.rows_a_predicate) * 4ul : p.stats).v;
  return p.predicate == 0ul || told != 0;
}
uint64_t stats(uint row) { return p.stats + uint64_t(row) * 8ul; }

void measure() {
  FOR_EACH_ROW(row, p.rows.count) {
    ADDRESS(x, p.x, p.rows, row)
    float mean = 0.0, correction = 0.0, squares = 0.0;
    if (kind == norm_layer) {
      FOR_EACH_LANE(i, p.n) mean += load_float(AT(x, p.x, i), p.x.dtype);
      mean = group_sum(mean) / float(p.n);
      FOR_EACH_LANE(i, p.n) correction += load_float(AT(x, p.x, i), p.x.dtype) - mean;
      correction = group_sum(correction) / float(p.n);
      mean += correction;
    }
    FOR_EACH_LANE(i, p.n) {
      const float c = load_float(AT(x, p.x, i), p.x.dtype) - mean;
      squares += c * c;
    }
    squares = group_sum(squares);
    if (gl_LocalInvocationID.x == 0u) {
      Float(stats(row)).v = mean;
      Float(stats(row) + 4ul).v = kind == norm_l2 ? sqrt(squares) : 1.0 / sqrt(squares / float(p.n) + p.epsilon);
    }
  }
}

/// Parts of the rows, as ops/norms_backward.cpp has them, and where the sums of a part lie.
const uint most_norm_parts = 64;
uint part_rows() { return max(64u, (p.rows.count + most_norm_parts - 1u) / most_norm_parts); }
uint parts() { return (p.rows.count + part_rows() - 1u) / part_rows(); }
uint64_t sums_of(uint part) { return p.sums + uint64_t(part) * uint64_t(p.n) * 8ul; }

void columns() {
  const uint from = gl_WorkGroupID.y * part_rows(), end = min(p.rows.count, from + part_rows());
  FOR_EACH_ITEM(i, p.n) {
    float weight_total = 0.0, bias_total = 0.0;
    for (uint begin = from; begin < end; begin += 64u) {
      float weight_sum = 0.0, bias_sum = 0.0;
      for (uint row = begin; row < min(end, begin + 64u); ++row) {
        if (!live(row)) continue;
        ADDRESS(x, p.x, p.rows, row)
        ADDRESS(dy, p.dy, p.rows, row)
        const float d = load_float(AT(dy, p.dy, i), p.dy.dtype);
        weight_sum += d * (load_float(AT(x, p.x, i), p.x.dtype) - Float(stats(row)).v) * Float(stats(row) + 4ul).v;
        bias_sum += d;
      }
      weight_total += weight_sum;
      bias_total += bias_sum;
    }
    Float(sums_of(gl_WorkGroupID.y) + uint64_t(i) * 4ul).v = weight_total;
    Float(sums_of(gl_WorkGroupID.y) + (uint64_t(p.n) + uint64_t(i)) * 4ul).v = bias_total;
  }
}

void gradients() {
  FOR_EACH_ROW(row, p.rows.count) {
    if (!live(row)) continue;
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(dy, p.dy, p.rows, row)
    ADDRESS(dx, p.dx, p.rows, row)
    const float mean = Float(stats(row)).v;
    float inverse = Float(stats(row) + 4ul).v, product = 0.0, shift = 0.0;
    const bool still = kind == norm_l2 && inverse < p.epsilon;  // then the divisor is epsilon; not of NaN
    if (kind == norm_l2) inverse = 1.0 / (still ? p.epsilon : inverse);
    FOR_EACH_LANE(i, p.n) {
      const float g = load_float(AT(dy, p.dy, i), p.dy.dtype) * factor_of(i);
      product += g * (load_float(AT(x, p.x, i), p.x.dtype) - mean);
      shift += g;
    }
    product = group_sum(product);
    shift = group_sum(shift);
    const float slope = still ? 0.0 : product / (kind == norm_l2 ? 1.0 : float(p.n)) * inverse * inverse * inverse;
    shift = kind == norm_layer ? shift / float(p.n) * inverse : 0.0;
    FOR_EACH_LANE(i, p.n) {
      const float g = load_float(AT(dy, p.dy, i), p.dy.dtype) * factor_of(i), c = load_float(AT(x, p.x, i), p.x.dtype) - mean;
      store_float(AT(dx, p.dx, i), p.dx.dtype, g * inverse - (still ? 0.0 : c * slope) - shift);
    }
  }
}

void finish() {
  FOR_EACH_ITEM(i, p.n) {
    float weight_sum = 0.0, bias_sum = 0.0;
    for (uint part = 0u; part < parts(); ++part) {
      weight_sum += Float(sums_of(part) + uint64_t(i) * 4ul).v;
      bias_sum += Float(sums_of(part) + (uint64_t(p.n) + uint64_t(i)) * 4ul).v;
    }
    const uint64_t w = p.dweight + uint64_t(i) * 4ul, b = p.dbias + uint64_t(i) * 4ul;
    if (p.dweight != 0ul) Float(w).v = p.accumulate != 0 ? Float(w).v + weight_sum : weight_sum;
    if (p.dbias != 0ul) Float(b).v = p.accumulate != 0 ? Float(b).v + bias_sum : bias_sum;
  }
}

void main() {
  if (pass == norm_measure) measure();
  else if (pass == norm_columns) columns();
  else if (pass == norm_gradients) gradients();
  else finish();
}
