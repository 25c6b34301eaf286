#version 460
// What a decoding loop keeps on the device. Constant 1: 0 accepted draft tokens of each row, 1 tokens put into a ring.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
layout(constant_id = 1) const int op = 0;
PUSHED(DecodingParams)

void accept() {
  FOR_EACH_ITEM(row, p.rows) {
    const uint64_t draft = p.a + uint64_t(row) * uint64_t(p.k) * 4ul, target = p.b + uint64_t(row) * uint64_t(p.k + 1u) * 4ul;
    const uint64_t token = p.y + uint64_t(row) * uint64_t(p.k + 1u) * 4ul;
    const bool live = Int(p.live + uint64_t(row) * 4ul).v != 0;
    uint count = 0u;
    if (live) {
      while (count < p.k && Int(draft + uint64_t(count) * 4ul).v == Int(target + uint64_t(count) * 4ul).v) ++count;
      ++count;
    }
    for (uint i = 0u; i <= p.k; ++i) Int(token + uint64_t(i) * 4ul).v = i < count ? Int(target + uint64_t(i) * 4ul).v : -1;
    Int(p.z + uint64_t(row) * 4ul).v = int(count);
  }
}

/// One invocation, so that the number is read by all before it is counted up.
void publish() {
  if (gl_GlobalInvocationID.x != 0u) return;
  const uint number = Uint(p.b).v;
  bool any = p.live == 0ul;
  for (uint s = 0u; s < p.rows; ++s) {
    if (!row_live(p.live, s)) continue;
    any = true;
    Int(p.y + (uint64_t(number % p.k) * uint64_t(p.rows) + uint64_t(s)) * 4ul).v = Int(p.a + uint64_t(s) * 4ul).v;
  }
  if (any) Uint(p.b).v = number + 1u;
}

void main() {
  if (op == 0) accept();
  else publish();
}
