#version 460
// Which of several indices of a row comes next, and which before: one workgroup goes through the indices in their order, a block of them at a time.
// Within a block each looks at all others; `last` says which index before the block had its row. What lies there from other calls counts only if that
// index has the row, and then it is the latest, since that one was the last to write.
//
// Rows that are skipped or out of range are in no list.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
PUSHED(RowsParams)
#include "row_lists.glsl"
shared int rows[gl_WorkGroupSize.x];

int row_in_list(uint i) {
  if (i >= p.count || !row_live(p.predicate, i)) return -1;
  const int row = row_of(i);
  return uint(row) < p.rows ? row : -1;
}

void main() {
  const uint t = gl_LocalInvocationID.x;
  for (uint begin = 0u; begin < p.count; begin += gl_WorkGroupSize.x) {
    const uint i = begin + t;
    const int row = row_in_list(i);
    rows[t] = row;
    barrier();
    uint next = NO_INDEX, before = NO_INDEX;
    if (row >= 0) {
      for (uint other = 0u; other < gl_WorkGroupSize.x; ++other) {
        if (rows[other] != row) continue;
        if (other < t) before = begin + other;
        if (other > t && next == NO_INDEX) next = begin + other;
      }
      if (before == NO_INDEX) {
        const uint told = Link(last_of(uint(row))).v;
        if (told < begin && row_in_list(told) == row) before = told;
      }
    }
    if (i < p.count) {
      Link(next_of(i)).v = next;
      Link(before_of(i)).v = before;
    }
    if (before < begin) Link(next_of(before)).v = i;  // of an earlier block
    barrier();  // the block has read what was last
    if (row >= 0 && next == NO_INDEX) Link(last_of(uint(row))).v = i;
    memoryBarrierBuffer();
    barrier();
  }
}
