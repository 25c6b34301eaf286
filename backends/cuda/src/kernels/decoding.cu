// spec_accept: one warp a row. token_publish: one block, whose ring entry is written before the number that tells of it.
#include "decoding.hpp"
#include "strided.cuh"

DEV int* integer_at(const Operand& o, i64 row, i64 i) { return reinterpret_cast<int*>(at<char>(o.data) + row * o.strides[0] + i * o.step); }

KERNEL(32) spec_accept(const __grid_constant__ AcceptParams p) {
  wait_for_inputs();
  const i64 row = blockIdx.x;
  i64 taken = 0;
  if (*integer_at(p.live, row, 0) != 0) {
    taken = p.k;  // up to the first that differs
    for (i64 first = 0; first < p.k && taken == p.k; first += 32) {
      const i64 i = first + threadIdx.x;
      const u32 apart = __ballot_sync(~0u, i < p.k && *integer_at(p.draft, row, i) != *integer_at(p.target, row, i));
      if (apart) taken = first + __ffs(apart) - 1;
    }
    ++taken;
  }
  for (i64 i = threadIdx.x; i <= p.k; i += 32) *integer_at(p.token, row, i) = i < taken ? *integer_at(p.target, row, i) : -1;
  if (threadIdx.x == 0) *integer_at(p.count, row, 0) = (int)taken;
}

KERNEL(256) token_publish(const __grid_constant__ PublishTokenParams p) {
  wait_for_inputs();
  u32* number = at<u32>(p.number);
  const i64 entry = *number % (u64)p.entries;
  bool any = false;
  for (i64 row = threadIdx.x; row < p.rows; row += blockDim.x) {
    if (!is_live(p.live, row)) continue;
    any = true;
    *integer_at(p.ring, entry, row) = *integer_at(p.token, row, 0);
  }
  __threadfence();
  if (__syncthreads_or(any) && threadIdx.x == 0) *number = *number + 1;
}
