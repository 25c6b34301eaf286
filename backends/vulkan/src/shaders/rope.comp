#version 460
// Rotates the pairs of each head by a row of the table, an invocation a pair or an element behind the pairs.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
STORED(RopeParams)
#define p (ParamsAt(stored).params)

void main() {
  const uint units = p.d - p.pairs;  // pairs, then single elements
  FOR_EACH_ITEM(item, p.tokens * p.heads * units) {
    const uint unit = item % units, head = item / units % p.heads, t = item / units / p.heads;
    const uint64_t x = p.x.data + uint64_t(int64_t(t) * p.x.stride[0] + int64_t(head) * p.x.stride[1]);
    const uint64_t y = p.y.data + uint64_t(int64_t(t) * p.y.stride[0] + int64_t(head) * p.y.stride[1]);
    bool inside = true;
    uint section = 0u, end = p.sections[0];
    const uint sections = p.sectioned != 0 ? 4u : 1u;
    for (uint s = 0u; s < sections; ++s) {
      const int position = Int(p.position + uint64_t(int64_t(s) * p.section_stride + int64_t(t) * p.position_stride)).v;
      inside = inside && position >= 0 && position < p.positions;
    }
    if (!inside && unit == 0u && head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
    if (unit >= p.pairs) {
      const uint i = 2u * p.pairs + (unit - p.pairs);
      const float v = load_float(x + uint64_t(int64_t(i) * p.x.stride[2]), p.x.dtype);
      store_float(y + uint64_t(int64_t(i) * p.y.stride[2]), p.y.dtype, inside ? v : 0.0);
      continue;
    }
    const uint first = p.mode == 0 ? 2u * unit : unit, second = p.mode == 0 ? 2u * unit + 1u : unit + p.pairs;
    float a = load_float(x + uint64_t(int64_t(first) * p.x.stride[2]), p.x.dtype);
    float b = load_float(x + uint64_t(int64_t(second) * p.x.stride[2]), p.x.dtype);
    if (inside) {
      if (p.sectioned != 0)
        while (section < 3u && unit >= end) end += p.sections[++section];
      const int position = Int(p.position + uint64_t(int64_t(section) * p.section_stride + int64_t(t) * p.position_stride)).v;
      const uint64_t turn = p.table + uint64_t(int64_t(position) * p.table_stride) + uint64_t(unit) * 8ul;
      const float cosine = Float(turn).v, sine = p.inverse != 0 ? -Float(turn + 4ul).v : Float(turn + 4ul).v;
      const float turned = a * cosine - b * sine;
      b = a * sine + b * cosine;
      a = turned;
    } else {
      a = b = 0.0;
    }
    store_float(y + uint64_t(int64_t(first) * p.y.stride[2]), p.y.dtype, a);
    store_float(y + uint64_t(int64_t(second) * p.y.stride[2]), p.y.dtype, b);
  }
}
