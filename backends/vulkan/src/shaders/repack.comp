#version 460
// A canonical matrix of a block format into planes (planes.glsl), two bytes an item.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
PUSHED(RepackParams)

void main() {
  const uint units = p.block_bytes / 2u;
  FOR_EACH_ITEM(i, p.blocks * units) {
    const uint block = i / units, at = i % units * 2u;
    for (uint f = 0u; f < 4u; ++f) {
      if (at < p.offset[f] || at >= p.offset[f] + p.bytes[f]) continue;
      Short(p.to[f] + uint64_t(block) * uint64_t(p.bytes[f]) + uint64_t(at - p.offset[f])).v =
          Short(p.from + uint64_t(block) * uint64_t(p.block_bytes) + uint64_t(at)).v;
    }
  }
}
