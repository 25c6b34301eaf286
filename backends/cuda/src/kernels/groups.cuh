// Products of a warpgroup on Hopper's matrix units (wgmma): 64 rows of A in registers, B in shared memory, f32 sums in registers.
//
// A product runs on while its warps do: group_fence before the first of some whose registers were written, group_commit behind them, and
// group_wait<n> until all but the last n such groups are done; before that neither sums nor A may be touched.
#pragma once
#include "prelude.cuh"

/// B of a step of 16 in k where 128 bytes of a row lie side by side, their chunks of 16 swizzled, and rows 128 bytes apart: `rows` is the distance of
/// eight rows, `wide` that of the next 128 bytes of a row (where they go along n; else any number).
DEV u64 swizzled_matrix(u32 address, u32 wide, u32 rows) { return (u64)(address >> 4 & 0x3fff) | (u64)(wide >> 4) << 16 | (u64)(rows >> 4) << 32 | 1ull << 62; }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
DEV void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
/// What this thread wrote to shared memory, asynchronous copies that have come among it, is seen by the matrix units behind the next barrier; or
/// behind this, what others wrote before a barrier that this thread waited at.
DEV void fence_for_groups() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Registers of each thread of a warpgroup from here on: those that one gives up another may take.
template <int N> DEV void less_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEV void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

/// All threads of a cluster meet; what they wrote to shared memory is there for the others.
DEV void cluster_barrier() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/// What lies at this block's address `p` in the shared memory of block `rank` of the cluster.
DEV float4 load_of_cluster(u32 p, int rank) {
  float4 v;
  asm volatile("{\n.reg .u32 a;\nmapa.shared::cluster.u32 a, %4, %5;\nld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [a];\n}"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(p), "r"(rank) : "memory");
  return v;
}

#define GROUP_SUMS_16(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7]), \
  "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]), "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
#define GROUP_OPERANDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more)

/// d (+)= A B of 64 rows, N columns and 16 in k; a thread has sums of rows g and g + 8 of its warp's, columns 8 i + 2 t and + 1.
template <int N, bool HALF, bool TURNED> struct GroupProduct;
#define GROUP_PRODUCT_64(HALF, TURNED, TYPE, TURN) \
  template <> struct GroupProduct<64, HALF, TURNED> { \
    static DEV void add(float* d, const u32* a, u64 b, int more) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n" \
                   "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18," \
                   "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, " TURN ";\n}" \
                   : GROUP_SUMS_16(d, 0), GROUP_SUMS_16(d, 16) : GROUP_OPERANDS); \
    } \
  };
#define GROUP_PRODUCT_128(HALF, TURNED, TYPE, TURN) \
  template <> struct GroupProduct<128, HALF, TURNED> { \
    static DEV void add(float* d, const u32* a, u64 b, int more) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n" \
                   "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18," \
                   "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49," \
                   "%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, " TURN ";\n}" \
                   : GROUP_SUMS_16(d, 0), GROUP_SUMS_16(d, 16), GROUP_SUMS_16(d, 32), GROUP_SUMS_16(d, 48) : GROUP_OPERANDS); \
    } \
  };
GROUP_PRODUCT_64(true, false, "f16", "0")
GROUP_PRODUCT_64(false, false, "bf16", "0")
GROUP_PRODUCT_64(true, true, "f16", "1")
GROUP_PRODUCT_64(false, true, "bf16", "1")
GROUP_PRODUCT_128(true, true, "f16", "1")
GROUP_PRODUCT_128(false, true, "bf16", "1")
#endif
