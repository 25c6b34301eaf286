#version 460
// The used best experts of a row of logits and their weights, an invocation a row. Constant 1: scores are sigmoids, not a softmax.
//
// Without a bias the logits order the experts; NaN counts as the least. Scores that are all 0 give weights of 0.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "math.glsl"
layout(constant_id = 1) const int sigmoids = 0;
PUSHED(RouterParams)

float logit(uint row, uint e) { return Float(p.logits + uint64_t(row) * uint64_t(p.logits_stride) + uint64_t(int64_t(e) * int64_t(p.logits_step))).v; }

void main() {
  FOR_EACH_ITEM(row, p.rows) {
    if (!row_live(p.predicate, row)) continue;
    float most = -INFINITY, sum = 0.0;
    if (sigmoids == 0) {
      for (uint e = 0u; e < p.experts; ++e) {
        const float x = logit(row, e);
        if (x > most) most = x;
      }
      if (most == -INFINITY) most = 0.0;
      for (uint e = 0u; e < p.experts; ++e) sum += exp_of(logit(row, e) - most);
    }
    const uint64_t ids = p.id + uint64_t(row) * uint64_t(p.id_stride), weights = p.weight + uint64_t(row) * uint64_t(p.weight_stride);
    float key_before = INFINITY, total = 0.0;
    int id_before = -1;
    for (uint u = 0u; u < p.used; ++u) {
      float best = -INFINITY, best_score = 0.0;
      int at = -1;
      for (uint e = 0u; e < p.experts; ++e) {
        const float x = logit(row, e);
        const float score = sigmoids != 0 ? sigmoid_of(x) : sum == 0.0 ? 0.0 : exp_of(x - most) / sum;
        float key = p.bias != 0ul ? score + Float(p.bias + uint64_t(e) * 4ul).v : x;
        if (is_nan(key)) key = -INFINITY;
        // Behind what was chosen before, by key and then by id.
        if (u > 0u && !(key < key_before || (key == key_before && int(e) > id_before))) continue;
        if (at >= 0 && !(key > best)) continue;
        best = key;
        at = int(e);
        best_score = score;
      }
      key_before = best;
      id_before = at;
      total += best_score;
      Int(ids + uint64_t(int64_t(u) * int64_t(p.id_step))).v = at;
      Float(weights + uint64_t(int64_t(u) * int64_t(p.weight_step))).v = best_score;
    }
    const float divisor = p.renormalise != 0 && total != 0.0 ? total : 1.0;
    for (uint u = 0u; u < p.used; ++u) {
      const uint64_t at = weights + uint64_t(int64_t(u) * int64_t(p.weight_step));
      Float(at).v = Float(at).v / divisor * p.scale;
    }
  }
}
