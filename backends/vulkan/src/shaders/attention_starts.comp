#version 460
// attention_ragged and its gradient: whether the starts of packed examples ascend from 0 within the rows. One workgroup. Attention itself is in
// attention_dense.comp and attention_backward.comp, whose batches are then examples.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "group.glsl"
PUSHED(AttentionStartsParams)

void main() {
  bool wrong = Int(p.start).v != 0;
  FOR_EACH_LANE(e, p.examples) {
    const int begin = Int(p.start + uint64_t(e) * 4ul).v, end = Int(p.start + uint64_t(e + 1u) * 4ul).v;
    wrong = wrong || end < begin || end > int(p.rows);
  }
  wrong = group_max(wrong ? 1.0 : 0.0) != 0.0;
  if (gl_LocalInvocationID.x != 0u) return;
  Int(p.valid).v = wrong ? 0 : 1;
  if (wrong) raise(p.faults, FAULT_INDEX_RANGE);
}
