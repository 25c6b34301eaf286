// Weights from canonical blocks into planes, and from blocks to plain rows, whose elements may be put in another order.
#include "blocks.cuh"

/// One thread a 2-byte piece of a block.
KERNEL(256) repack(const __grid_constant__ RepackParams p) {
  wait_for_inputs();
  const int pieces = p.block_bytes / 2;
  FOR_EACH(i, p.blocks * pieces) {
    const i64 block = i / pieces;
    const int byte = (int)(i % pieces) * 2;
    const u16 v = *at<const u16>(p.from + block * p.block_bytes + byte);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (p.bytes[k] && byte >= p.offset[k] && byte < p.offset[k] + p.bytes[k])
        *at<u16>(p.to[k] + block * p.bytes[k] + (byte - p.offset[k])) = v;
  }
}

/// One thread sixteen elements.
KERNEL(256) unpack_rows(const __grid_constant__ UnpackParams p) {
  wait_for_inputs();
  const u32 pieces = (u32)(p.columns / 16);
  FOR_EACH(i, p.rows * pieces) {
    float v[16];
    decode16(p.w, i / pieces * (p.k / 16) + p.first / 16 + i % pieces, v);
    if (p.y_dtype == BF16) {
      uint4* to = at<uint4>(p.y) + 2 * i;
      to[0] = make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
      to[1] = make_uint4(pack_bf16(v[8], v[9]), pack_bf16(v[10], v[11]), pack_bf16(v[12], v[13]), pack_bf16(v[14], v[15]));
    } else {
#pragma unroll
      for (int j = 0; j < 16; ++j) store_float(at<char>(p.y), p.y_dtype, i * 16 + j, v[j]);
    }
  }
}

/// A block a row, which is put together in shared memory.
KERNEL(256) unpack_in_order(const __grid_constant__ OrderedUnpackParams p) {
  SHARED_MEMORY(u16, row);  // [k]
  wait_for_inputs();
  const int* index = at<const int>(p.index);
  for (int s = threadIdx.x; s < p.k / 16; s += blockDim.x) {
    float v[16];
    decode16(p.w, (i64)blockIdx.x * (p.k / 16) + s, v);
#pragma unroll
    for (int j = 0; j < 16; ++j) row[index[s * 16 + j]] = to_bf16(v[j]);
  }
  __syncthreads();
  uint4* to = at<uint4>(p.y) + (i64)blockIdx.x * (p.k / 8);
  for (int i = threadIdx.x; i < p.k / 8; i += blockDim.x) to[i] = reinterpret_cast<const uint4*>(row)[i];
}
