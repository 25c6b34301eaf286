// Keys and values into their pages; copies of whole pages; moves of single positions.
#include "cache.cuh"
#include "encode.cuh"

/// One block a (kv head, row); 128 threads.
KERNEL(128) kv_write(const __grid_constant__ KvWriteParams p) {
  wait_for_inputs();
  const int head = blockIdx.x;
  const i64 t = blockIdx.y;
  const int position = at<const int>(p.table.position)[t];
  if (position == -1 || !is_live(p.live, t)) return;
  const int page = page_of(p.table, p.cache.pages, at<const int>(p.table.row_slot)[t], position);
  if (page < 0) {
    if (threadIdx.x == 0) raise_fault(p.faults);
    return;
  }
  const char* x = vector_of(p.x, t, head);
  char* to = vector_at(p.cache, page, head, position % p.table.page);
  if (p.cache.dtype == Q8_0 || p.cache.dtype == Q4_0) {
    for (int g = threadIdx.x >> 5; g < p.cache.d / 32; g += blockDim.x >> 5)
      encode_block32(load_at(p.x, x, g * 32 + (threadIdx.x & 31)), p.cache.dtype, to + g * (p.cache.dtype == Q8_0 ? 34 : 18));
    return;
  }
  for (int i = threadIdx.x; i < p.cache.d; i += blockDim.x) store_float(to, p.cache.dtype, i, load_at(p.x, x, i));
}

/// One block a (pair of pages, kv head), times a part of the slots.
KERNEL(256) kv_copy(const __grid_constant__ KvCopyParams p) {
  wait_for_inputs();
  if (!is_live(p.live, 0)) return;
  const int from = at<const int>(p.from)[blockIdx.y], to = at<const int>(p.to)[blockIdx.y], head = blockIdx.z;
  if (from < 0 || from >= p.cache.pages || to < 0 || to >= p.cache.pages) {
    if (blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
    return;
  }
  const i64 units = p.cache.vector_bytes / 2;
  FOR_EACH(i, p.cache.page * units) {
    const int slot = (int)(i / units);
    reinterpret_cast<u16*>(vector_at(p.cache, to, head, slot))[i % units] =
        reinterpret_cast<const u16*>(vector_at(p.cache, from, head, slot))[i % units];
  }
}

/// One block a kv head: an entry may read what one before it wrote.
KERNEL(128) kv_move(const __grid_constant__ KvMoveParams p) {
  wait_for_inputs();
  if (!is_live(p.live, 0)) return;
  for (int i = 0; i < p.count; ++i) {
    const int sequence = at<const int>(p.table.row_slot)[i], from = at<const int>(p.table.position)[i], to = at<const int>(p.to)[i];
    const int source = page_of(p.table, p.cache.pages, sequence, from), target = page_of(p.table, p.cache.pages, sequence, to);
    if (source >= 0 && target >= 0) {
      const u16* x = reinterpret_cast<const u16*>(vector_at(p.cache, source, blockIdx.x, from % p.table.page));
      u16* y = reinterpret_cast<u16*>(vector_at(p.cache, target, blockIdx.x, to % p.table.page));
      for (i64 e = threadIdx.x; e < p.cache.vector_bytes / 2; e += blockDim.x) y[e] = x[e];
    } else if (blockIdx.x == 0 && threadIdx.x == 0) {
      raise_fault(p.faults);
    }
    __syncthreads();
  }
}
