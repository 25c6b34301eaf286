#version 460
// What a decoding loop keeps on the device. Constant 1: 0 accepted draft tokens of each row, 1 tokens put into a ring.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
layout(constant_id = 1) const int op = 0;
PUSHED(DecodingParams)
#define AT(base, step, i) (base + uint64_t(int64_t(i) * int64_t(step)))

void accept() {
  FOR_EACH_ITEM(row, p.rows) {
    const uint64_t draft = p.a + uint64_t(int64_t(row) * p.a_row), target = p.b + uint64_t(int64_t(row) * p.b_row);
    const uint64_t token = p.y + uint64_t(int64_t(row) * p.y_row);
    const bool live = Int(p.live + uint64_t(row) * 4ul).v != 0;
    uint count = 0u;
    if (live) {
      while (count < p.k && Int(AT(draft, p.a_step, count)).v == Int(AT(target, p.b_step, count)).v) ++count;
      ++count;
    }
    for (uint i = 0u; i <= p.k; ++i) Int(AT(token, p.y_step, i)).v = i < count ? Int(AT(target, p.b_step, i)).v : -1;
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
    Int(AT(p.y + uint64_t(int64_t(number % p.k) * p.y_row), p.y_step, s)).v = Int(p.a + uint64_t(s) * 4ul).v;
  }
  if (any) Uint(p.b).v = number + 1u;
}

void main() {
  if (op == 0) accept();
  else publish();
}
