#version 460
// Penalties of tokens seen before, or biases of named tokens, an invocation a logit, a row of workgroups a row. Constant 1: which.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "logit_changes.glsl"
layout(constant_id = 1) const int biases = 0;
PUSHED(LogitParams)

void main() {
  for (uint row = gl_WorkGroupID.y; row < p.rows; row += gl_NumWorkGroups.y) {
    if (!row_live(p.predicate, row)) continue;
    const uint64_t entries = uint64_t(row) * uint64_t(p.entries) * 4ul;
    const bool copies = biases != 0 && !names_any(p.tokens + entries, p.entries);
    Seen seen = Seen(0ul, 0ul, 0, 0);
    if (biases == 0) seen = seen_of(p.tokens, p.lengths, p.params, row, p.entries);
    FOR_EACH_ITEM(i, p.n) {
      float x = Float(p.x + uint64_t(int64_t(row) * p.x_row) + uint64_t(i) * 4ul).v;
      if (biases == 0) x = penalized(seen, i, p.n, x, p.faults);
      else if (!copies) x = biased(p.tokens + entries, p.params + entries, p.entries, i, p.n, x, p.faults);
      Float(p.y + uint64_t(int64_t(row) * p.y_row) + uint64_t(i) * 4ul).v = x;
    }
  }
}
