// Keys and values into their pages; copies of whole pages.
#include "kv.cuh"

/// One block a (kv head, row); 128 threads.
KERNEL(128) kv_write(const __grid_constant__ KvWriteParams p) {
  wait_for_inputs();
  const i64 head = blockIdx.x, t = blockIdx.y;
  const i64 slot = page_slot(p.to, t, p.faults);
  if (slot < 0) return;
  const i64 from = (t * p.to.kv_heads + head) * p.to.d, to = cache_element(p.to, slot, head);
  if (p.to.dtype == Q8_0 || p.to.dtype == Q4_0) {
    for (int g = threadIdx.x >> 5; g < p.to.d / 32; g += blockDim.x >> 5)
      encode32(load_float(at<const char>(p.x), p.x_dtype, from + g * 32 + (threadIdx.x & 31)), p.to, to / 32 + g);
    return;
  }
  for (int i = threadIdx.x; i < p.to.d; i += blockDim.x)
    store_float(at<char>(p.to.cache), p.to.dtype, to + i, load_float(at<const char>(p.x), p.x_dtype, from + i));
}

/// One block a pair of pages, times a part of the page.
KERNEL(256) kv_copy(const __grid_constant__ KvCopyParams p) {
  wait_for_inputs();
  const i64 from = at<const int>(p.from)[blockIdx.y], to = at<const int>(p.to)[blockIdx.y];
  if (from < 0 || from >= p.pages || to < 0 || to >= p.pages) {
    if (blockIdx.x == 0 && threadIdx.x == 0) raise_fault(p.faults);
    return;
  }
  const u16* x = at<const u16>(p.cache + from * p.page_bytes);
  u16* y = at<u16>(p.cache + to * p.page_bytes);
  FOR_EACH(i, p.page_bytes / 2) y[i] = x[i];
}
