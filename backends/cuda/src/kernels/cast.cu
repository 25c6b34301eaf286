// Casts from block formats to floats and back.
#include "blocks.cuh"
#include "cast.hpp"
#include "encode.cuh"
#include "strided.cuh"

/// One thread sixteen elements.
KERNEL(256) decode_rows(const __grid_constant__ BlockCastParams p) {
  wait_for_inputs();
  const i64 sixteens = p.h / 16;
  FOR_EACH(i, p.rows.count * sixteens) {
    const i64 r = i / sixteens, s = i % sixteens;
    Blocks row = p.blocks;
    const Address start = (Address)place(p.x, p.rows, r);
    for (int piece = 0; piece < 4; ++piece) row.plane[piece] += start;
    float v[16];
    decode16(row, s, v);
    char* y = place(p.y, p.rows, r);
    if (p.y.step == 2 && ((Address)y & 15) == 0) {
      u32 pairs[8];
#pragma unroll
      for (int j = 0; j < 8; ++j)
        pairs[j] = p.y.dtype == BF16 ? pack_bf16(v[2 * j], v[2 * j + 1]) : (u32)to_half(v[2 * j]) | (u32)to_half(v[2 * j + 1]) << 16;
      uint4* to = reinterpret_cast<uint4*>(y) + 2 * s;
      to[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      to[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
    } else {
#pragma unroll
      for (int j = 0; j < 16; ++j) store_at(p.y, y, s * 16 + j, v[j]);
    }
  }
}

/// One warp a block.
KERNEL(256) encode_rows(const __grid_constant__ BlockCastParams p) {
  __shared__ u8 codes[8][256];
  wait_for_inputs();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, dtype = p.y.dtype;
  int elements = dtype == Q4_K || dtype == Q5_K || dtype == Q6_K ? 256 : 32;
#define BLOCK_ELEMENTS(FORMAT, number) \
  if (dtype == FORMAT) elements = number;
  FURTHER_FORMATS(BLOCK_ELEMENTS)
#undef BLOCK_ELEMENTS
  const i64 blocks = p.h / elements;
  for (i64 i = (i64)blockIdx.x * 8 + warp; i < p.rows.count * blocks; i += (i64)gridDim.x * 8) {
    const i64 r = i / blocks, b = i % blocks;
    const char* x = place(p.x, p.rows, r);
    char* y = place(p.y, p.rows, r) + b * p.blocks.stride[0];
#define ENCODE(FORMAT, number) \
  if (dtype == FORMAT) { \
    Format<FORMAT>::encode([&](int e) { return load_at(p.x, x, b * number + e); }, y); \
    continue; \
  }
    FURTHER_FORMATS(ENCODE)
#undef ENCODE
    if (elements == 32) {
      encode_block32(load_at(p.x, x, b * 32 + lane), dtype, y);
      continue;
    }
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = load_at(p.x, x, b * 256 + lane * 8 + j);
    if (dtype == Q6_K) encode_q6_k(v, y, codes[warp]);
    else encode_offset_k(v, dtype, y, codes[warp]);
  }
}
