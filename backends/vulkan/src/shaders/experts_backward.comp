#version 460
// Gradients of matmul_id and moe_router. Constant 1 is the job of modes.h; constant 2: scores are sigmoids.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
#include "math.glsl"
layout(constant_id = 1) const int op = 0;
layout(constant_id = 2) const int sigmoids = 0;
STORED(ExpertsBackwardParams)
#define p (ParamsAt(stored).params)

#define AT3(view, i, j, c) load_float((view).data + uint64_t(int64_t(i) * (view).stride[0] + int64_t(j) * (view).stride[1] + int64_t(c) * (view).stride[2]), (view).dtype)
int id_of(uint t, uint u) { return Int(p.id + uint64_t(int64_t(t) * p.id_row + int64_t(u) * int64_t(p.id_step))).v; }

/// da[t][u] = dy[t][u] b[id]; with one row of a for a token the sum over u.
void make_da() {
  const uint rows = p.shared_rows != 0 ? 1u : p.used;
  FOR_EACH_ITEM(item, p.tokens * rows * p.k) {
    const uint c = item % p.k, row = item / p.k % rows, t = item / p.k / rows;
    if (!row_live(p.predicate, t)) continue;
    float total = 0.0;
    for (uint u = p.shared_rows != 0 ? 0u : row; u < (p.shared_rows != 0 ? p.used : row + 1u); ++u) {
      const int id = id_of(t, u);
      if (id < 0 || id >= p.experts) {
        if (id != -1 && c == 0u) raise(p.faults, FAULT_INDEX_RANGE);
        continue;
      }
      for (uint begin = 0u; begin < p.n; begin += 64u) {
        float sum = 0.0;
        for (uint j = begin; j < min(p.n, begin + 64u); ++j) sum = fma(AT3(p.dy, t, u, j), AT3(p.b, uint(id), j, c), sum);
        total += sum;
      }
    }
    store_float(p.da.data + uint64_t(int64_t(t) * p.da.stride[0] + int64_t(row) * p.da.stride[1] + int64_t(c) * p.da.stride[2]), p.da.dtype, total);
  }
}

/// db[e] = sum over its pairs of dy^T a.
void make_db() {
  FOR_EACH_ITEM(item, p.slice * p.n * p.k) {
    const uint c = item % p.k, j = item / p.k % p.n, e = p.first_expert + item / p.k / p.n;
    float total = 0.0;
    uint found = 0u;
    for (uint t = 0u; t < p.tokens; ++t) {
      if (!row_live(p.predicate, t)) continue;
      for (uint u = 0u; u < p.used; ++u) {
        const int id = id_of(t, u);
        if (c == 0u && j == 0u && e == 0u && id != -1 && (id < 0 || id >= p.experts)) raise(p.faults, FAULT_INDEX_RANGE);
        if (id != int(e)) continue;
        ++found;
        total = fma(AT3(p.dy, t, u, j), AT3(p.a, t, p.shared_rows != 0 ? 0u : u, c), total);
      }
    }
    const uint64_t at = p.db.data + uint64_t(int64_t(e) * p.db.stride[0] + int64_t(j) * p.db.stride[1] + int64_t(c) * p.db.stride[2]);
    if (p.accumulate != 0 && found == 0u) continue;
    store_float(at, p.db.dtype, p.accumulate != 0 ? load_float(at, p.db.dtype) + total : total);
  }
}

float logit(uint row, uint e) { return Float(p.a.data + uint64_t(int64_t(row) * p.a.stride[0] + int64_t(e) * p.a.stride[1])).v; }
float score_of(uint row, uint e, float most, float sum) {
  return sigmoids != 0 ? sigmoid_of(logit(row, e)) : sum == 0.0 ? 0.0 : exp_of(logit(row, e) - most) / sum;
}
float dweight(uint row, uint u) { return Float(p.dy.data + uint64_t(int64_t(row) * p.dy.stride[0] + int64_t(u) * p.dy.stride[1])).v; }

void route_back() {
  FOR_EACH_ITEM(row, p.tokens) {
    if (!row_live(p.predicate, row)) continue;
    float most = -INFINITY, sum = 0.0;
    if (sigmoids == 0) {
      for (uint e = 0u; e < uint(p.experts); ++e) {
        const float x = logit(row, e);
        if (x > most) most = x;
      }
      if (most == -INFINITY) most = 0.0;
      for (uint e = 0u; e < uint(p.experts); ++e) sum += exp_of(logit(row, e) - most);
    }
    float chosen = 0.0, inner = 0.0;
    for (uint u = 0u; u < p.used; ++u) {
      const int id = id_of(row, u);
      if (id < 0 || id >= p.experts) {
        if (id != -1) raise(p.faults, FAULT_INDEX_RANGE);
        continue;
      }
      const float s = score_of(row, uint(id), most, sum);
      chosen += s;
      inner += dweight(row, u) * s;
    }
    const bool divided = p.accumulate != 0 && chosen != 0.0;  // accumulate: renormalise
    const float factor = p.scale / (divided ? chosen : 1.0), shift = divided ? inner / chosen : 0.0;
    float all = 0.0;  // sum of score times its gradient
    for (uint u = 0u; u < p.used; ++u) {
      const int id = id_of(row, u);
      if (id >= 0 && id < p.experts) all += score_of(row, uint(id), most, sum) * factor * (dweight(row, u) - shift);
    }
    for (uint e = 0u; e < uint(p.experts); ++e) {
      float dscore = 0.0;
      for (uint u = 0u; u < p.used; ++u)
        if (id_of(row, u) == int(e)) dscore += factor * (dweight(row, u) - shift);
      const float score = score_of(row, e, most, sum);
      Float(p.da.data + uint64_t(int64_t(row) * p.da.stride[0] + int64_t(e) * p.da.stride[1])).v = score * (sigmoids != 0 ? dscore * (1.0 - score) : dscore - all);
    }
  }
}

void main() {
  if (op == experts_da) make_da();
  else if (op == experts_db) make_db();
  else route_back();
}
