#version 460
// Attention whose keys several workgroups of attention_matrix.comp shared: sums of the parts, in their order. An invocation has four values of a row
// and head. A part leaves its sums of weighted values, and for each row and head its largest score times log2(e), and the sum of weights; that is below 0
// where another kernel computes the row. A part without keys has left no values.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
PUSHED(AttentionJoinParams)

void main() {
  const uint fours = p.d / 4u;
  FOR_EACH_ITEM(item, p.rows * p.heads * fours) {
    const uint c = item % fours, of_part = item / fours, head = of_part % p.heads, row = of_part / p.heads, all = p.rows * p.heads;
    const uint64_t sums = p.parts + uint64_t(p.count) * uint64_t(all) * uint64_t(p.d) * 4ul + uint64_t(of_part) * 8ul;
    float most = -INFINITY;
    for (uint part = 0u; part < p.count; ++part) most = max(most, FloatPair(sums + uint64_t(part * all) * 8ul).v.x);
    float sum = 0.0;
    vec4 total = vec4(0.0);
    bool elsewhere = false;
    for (uint part = 0u; part < p.count; ++part) {
      const vec2 found = FloatPair(sums + uint64_t(part * all) * 8ul).v;
      elsewhere = elsewhere || found.y < 0.0;
      if (found.y == 0.0) continue;
      const float share = exp2(found.x - most);
      sum += share * found.y;
      if (share != 0.0) total += share * Float4(p.parts + (uint64_t(part) * uint64_t(all) + uint64_t(of_part)) * uint64_t(p.d) * 4ul + uint64_t(c) * 16ul).v;
    }
    if (elsewhere) continue;
    Float4(p.y + uint64_t(int64_t(row) * p.y_row + int64_t(head) * p.y_head) + uint64_t(c) * 16ul).v = sum == 0.0 ? vec4(0.0) : total / sum;
  }
}
