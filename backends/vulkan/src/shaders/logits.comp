#version 460
// Penalties of tokens seen before, or biases of named tokens, an invocation a logit, a row of workgroups a row. Constant 1: which.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
layout(constant_id = 1) const int biases = 0;
PUSHED(LogitParams)

float penalized(uint row, uint i, float x) {
  const uint64_t params = p.params + uint64_t(row) * 32ul, history = p.tokens + uint64_t(row) * uint64_t(p.entries) * 4ul;
  const int length = clamp(Int(p.lengths + uint64_t(row) * 4ul).v, 0, int(p.entries));
  const float window = Float(params + 28ul).v;
  const int first = length - int(window > 0.0 ? min(window, float(length)) : 0.0);
  int count = 0;
  for (int j = first; j < length; ++j) {
    const int token = Int(history + uint64_t(j) * 4ul).v;
    if (token == int(i)) ++count;
    if (i == 0u && token >= int(p.n)) raise(p.faults, FAULT_INDEX_RANGE);
  }
  if (count == 0) return x;
  const float repeat = Float(params + 16ul).v;
  const float scaled = x > 0.0 ? x / repeat : x * repeat;
  return scaled - Float(params + 24ul).v * float(count) - Float(params + 20ul).v;
}

float biased(uint row, uint i, float x) {
  const uint64_t tokens = p.tokens + uint64_t(row) * uint64_t(p.entries) * 4ul, added = p.params + uint64_t(row) * uint64_t(p.entries) * 4ul;
  for (uint e = 0u; e < p.entries; ++e) {
    const int token = Int(tokens + uint64_t(e) * 4ul).v;
    if (token == int(i)) x += Float(added + uint64_t(e) * 4ul).v;
    if (i == 0u && (token < -1 || token >= int(p.n))) raise(p.faults, FAULT_INDEX_RANGE);
  }
  return x;
}

shared uint named;

/// Whether a row names any token: most name none, and then each logit is spared a look at all entries.
bool names_any(uint row) {
  if (gl_LocalInvocationID.x == 0u) named = 0u;
  barrier();
  const uint64_t tokens = p.tokens + uint64_t(row) * uint64_t(p.entries) * 4ul;
  FOR_EACH_LANE(e, p.entries) {
    if (Int(tokens + uint64_t(e) * 4ul).v != -1) named = 1u;
  }
  barrier();
  const bool any = named != 0u;
  barrier();
  return any;
}

void main() {
  for (uint row = gl_WorkGroupID.y; row < p.rows; row += gl_NumWorkGroups.y) {
    if (!row_live(p.predicate, row)) continue;
    const bool copies = biases != 0 && !names_any(row);
    FOR_EACH_ITEM(i, p.n) {
      const float x = Float(p.x + uint64_t(int64_t(row) * p.x_row) + uint64_t(i) * 4ul).v;
      Float(p.y + uint64_t(int64_t(row) * p.y_row) + uint64_t(i) * 4ul).v = copies ? x : biases != 0 ? biased(row, i, x) : penalized(row, i, x);
    }
  }
}
