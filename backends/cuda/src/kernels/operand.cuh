// How 16-bit activations of products by mixed.cu lie in memory: as in its shared memory, so that one bulk copy brings them there.
//
// For each block of 256 elements the `columns` rows side by side, OPERAND_PITCH bytes each: chunks of 8 elements, chunk c at c ^ 4 x bit 3 of
// c, then the means of chunks in f16, those of a group of 32 side by side (mean_place), 64 bytes and 16 of room. The distance is an odd number of sixteens: rows that
// are read together share no bank. More than 64 rows: one such operand after another.
#pragma once
#include "matrix.cuh"
#include "operand.hpp"

enum { OPERAND_PITCH = operand_pitch };

/// Where the mean of chunk c is behind the elements: four of a group of 32 side by side, then those of the group four on.
DEV int mean_place(int c) { return (c >> 2 & 3) * 16 + (c >> 4) * 8 + (c & 3) * 2; }
DEV int swizzled_chunk(int c) { return (c ^ (c >> 1 & 4)) * 16; }
/// Byte offset of row `row` of block 0. `blocks`: of 256 elements in k.
DEV i64 operand_row(i64 row, int columns, i64 blocks) { return (row / 64 * blocks * columns + row % 64) * OPERAND_PITCH; }

/// The mean of what eight neighbouring lanes have, one element each.
DEV float mean_of_eight(float v) {
#pragma unroll
  for (int o = 4; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return 0.125f * v;
}
/// Stores one element of a row, without a mean.
DEV void store_element(char* row, int columns, int i, float v, bool half) {
  char* block = row + (i64)(i >> 8) * columns * OPERAND_PITCH;
  *reinterpret_cast<u16*>(block + swizzled_chunk((i & 255) >> 3) + (i & 7) * 2) = half ? to_half(cut_to_half(v)) : to_bf16(v);
}
/// Stores element `i` of a row, a lane's, of a warp that has 32 neighbouring ones. Lanes of an eight store all or not. `places`: 0, or i32 for each
/// element, where it goes instead; then there are no means.
DEV void store_operand(char* row, int columns, i64 i, float v, bool half, Address places, bool stores = true) {
  if (places) {
    if (stores) store_element(row, columns, at<const int>(places)[i], v, half);
    return;
  }
  char* block = row + (i >> 8) * columns * OPERAND_PITCH;
  const int e = (int)i & 255, c = e >> 3;
  const float mean = mean_of_eight(v);
  if (!stores) return;
  *reinterpret_cast<u16*>(block + swizzled_chunk(c) + (e & 7) * 2) = half ? to_half(cut_to_half(v)) : to_bf16(v);
  if ((i & 7) == 0) *reinterpret_cast<u16*>(block + 512 + mean_place(c)) = to_half(cut_to_half(mean));
}
/// Stores elements i to i + 3 of a row; neighbouring lanes have neighbouring fours, all lanes of the warp take part: rows are whole blocks. `places` as
/// of store_operand.
DEV void store_operand_four(char* row, int columns, i64 i, const float4& v, bool half, Address places) {
  if (places) {
    const int* to = at<const int>(places) + i;
    store_element(row, columns, to[0], v.x, half);
    store_element(row, columns, to[1], v.y, half);
    store_element(row, columns, to[2], v.z, half);
    store_element(row, columns, to[3], v.w, half);
    return;
  }
  float sum = v.x + v.y + v.z + v.w;
  sum += __shfl_xor_sync(~0u, sum, 1);
  char* block = row + (i >> 8) * columns * OPERAND_PITCH;
  const int e = (int)i & 255, c = e >> 3;
  *reinterpret_cast<uint2*>(block + swizzled_chunk(c) + (e & 7) * 2) = make_uint2(pack16(v.x, v.y, half), pack16(v.z, v.w, half));
  if ((i & 7) == 0) *reinterpret_cast<u16*>(block + 512 + mean_place(c)) = to_half(cut_to_half(0.125f * sum));
}
