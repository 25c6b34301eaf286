// Where the vectors of a paged cache lie, and single elements of them.
#pragma once
#include "cache.hpp"
#include "strided.cuh"

/// The page of a position, or -1: the sequence, the position or the page is out of range.
DEV int page_of(const PageTable& table, int pages, int sequence, int position) {
  if (sequence < 0 || sequence >= table.sequences || position < 0 || position / table.page >= table.pages_per_sequence) return -1;
  const int page = at<const int>(table.block_table)[(i64)sequence * table.pages_per_sequence + position / table.page];
  return page >= 0 && page < pages ? page : -1;
}
DEV char* vector_at(const CacheView& c, int page, int head, int slot) {
  return at<char>(c.data) + page * c.page_stride + head * c.head_stride + slot * c.slot_stride;
}
DEV float load_element(int dtype, const char* vector, int i) {
  if (dtype == Q8_0) {
    const char* block = vector + i / 32 * 34;
    return from_half(*reinterpret_cast<const u16*>(block)) * (float)reinterpret_cast<const i8*>(block)[2 + i % 32];
  }
  if (dtype == Q4_0) {
    const char* block = vector + i / 32 * 18;
    const int code = reinterpret_cast<const u8*>(block)[2 + i % 16] >> (i % 32 >= 16 ? 4 : 0) & 15;
    return from_half(*reinterpret_cast<const u16*>(block)) * (float)(code - 8);
  }
  return load_float(vector, dtype, i);
}
DEV const char* vector_of(const Operand& o, i64 t, i64 head) { return at<const char>(o.data) + t * o.strides[0] + head * o.strides[1]; }
