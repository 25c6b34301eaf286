#version 460
// y[i] = table[index[i]], decoded: an invocation 16 elements, or one where rows are not multiples of 16 or their
// elements lie apart. Constant 1: the table's format;
// constant 2: elements an invocation; constant 3: the table lies in planes.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "blocks.glsl"
#include "any_format.glsl"
#include "planes.glsl"
layout(constant_id = 1) const int format = F32;
layout(constant_id = 2) const int wide = 16;
layout(constant_id = 3) const int packed = 0;
PUSHED(RowsParams)

void main() {
  const uint units = p.h / uint(wide);
  FOR_EACH_ITEM(item, p.count * units) {
    const uint i = item / units, first = item % units * uint(wide);
    const uint64_t at = p.index + uint64_t(int64_t(i) * int64_t(p.index_step));
    const int row = load_index(at, p.index_dtype);
    const bool inside = row >= 0 && uint(row) < p.rows;
    if (!inside && first == 0u) raise(p.faults, FAULT_INDEX_RANGE);
    const uint64_t from = p.table + uint64_t(int64_t(max(row, 0)) * p.table_stride), y = p.x + uint64_t(int64_t(i) * p.x_stride);
    if (wide == 1) {
      const uint64_t to = y + uint64_t(int64_t(first) * int64_t(p.x_step));
      const uint64_t element = from + uint64_t(int64_t(first) * int64_t(p.table_step));
      if (format == I32) Int(to).v = inside ? Int(element).v : 0;
      else store_float(to, p.x_dtype, inside ? load_float(element, format) : 0.0);
    } else {
      const uint n = any_block_elements(format);
      Group group;
      if (packed != 0) {
        const uint64_t row_blocks = uint64_t(p.h / n);
        group = open_packed(planes_at(p.table, format, uint64_t(p.rows) * row_blocks), uint64_t(max(row, 0)) * row_blocks + uint64_t(first / n),
                            format, first % n);
      } else {
        group = open_any(from + uint64_t(first / n) * uint64_t(any_block_bytes(format)), format, first % n);
      }
      for (uint j = 0u; j < 8u; ++j) {
        vec2 w = vec2(0.0);
        if (inside) w = pair_of_any(group, format, j);
        store_float(y + uint64_t(int64_t(first + 2u * j) * int64_t(p.x_step)), p.x_dtype, w.x);
        store_float(y + uint64_t(int64_t(first + 2u * j + 1u) * int64_t(p.x_step)), p.x_dtype, w.y);
      }
    }
  }
}
