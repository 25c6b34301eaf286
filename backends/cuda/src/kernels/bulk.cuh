// Bulk copies from global to shared memory and the barriers that count their bytes. Capability 9.0 and newer.
#pragma once
#include "prelude.cuh"

#if __CUDA_ARCH__ >= 900 && !defined(QUERN_EMULATED_CARD)
/// What the host gives a block of shared memory.
#define SHARED_BYTES(name) extern __shared__ __align__(128) char name[]
DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
/// One thread, before any other touches the barrier; then fence_barriers and a barrier of the block.
DEV void barrier_init(u64* b, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
DEV void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// An arrival of a phase, which ends when all have arrived and as many bytes came as they told.
DEV void barrier_expect(u64* b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
DEV void barrier_wait(u64* b, u32 parity) {
  u32 done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
  } while (!done);
}
/// An arrival when this thread's asynchronous copies until here have come.
DEV void barrier_arrive_copies(u64* b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(b)) : "memory"); }
/// A warp's arrivals at the end of what its lanes did: one, by lane 0. The caller's __syncwarp comes first, which orders what the other lanes read before
/// it. racecheck does not know that; for it every lane arrives (QUERN_CUDA_RACECHECK in CMake).
#ifdef EVERY_LANE_ARRIVES
enum { WARP_ARRIVALS = 32 };
#else
enum { WARP_ARRIVALS = 1 };
#endif
DEV void warp_arrive(u64* b, int lane) {
  if (lane < WARP_ARRIVALS) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
/// Addresses and bytes are multiples of 16.
DEV void bulk_copy(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}
/// The same of what is read once: L2 keeps it no longer than it must.
DEV void bulk_copy_once(void* to, const void* from, u32 bytes, u64* barrier) {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy) : "memory");
}
#endif
