// Products on the matrix units with f32 sums (m16n8k16 in bf16 or f16, m16n8k8 in TF32), those of int8 codes, and the loads that feed them.
// Capability 8.0 and newer.
#pragma once
#include "prelude.cuh"

#if __CUDA_ARCH__ >= 800 && !defined(QUERN_EMULATED_CARD)
DEV u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV void load_matrices(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
DEV void load_transposed(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
template <bool HALF> DEV void multiply16(float* c, const u32* a, u32 b0, u32 b1) {
  if (HALF)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV u32 to_tf32(float x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
DEV void multiply_tf32(float* c, const u32* a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// 16 bytes to shared memory: the first `bytes` of them are read, the others are zeros.
DEV void copy_async(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
DEV void copy_word_async(u32 to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory"); }
DEV void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
/// d = a b + c of 16 x 32 and 32 x 8 codes; A is u8 (UNSIGNED) or s8.
template <bool UNSIGNED> DEV void multiply_codes32(int* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, int c) {
  if (UNSIGNED)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c));
}
/// d = a b of 16 x 16 and 16 x 8 codes, s8.
DEV void multiply_codes16(int* d, u32 a0, u32 a1, u32 b0) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a0), "r"(a1), "r"(b0), "r"(0));
}
#endif

DEV u32 pack_half(float lo, float hi) {
#if __CUDA_ARCH__ >= 800 && !defined(QUERN_EMULATED_CARD)
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return (u32)to_half(lo) | (u32)to_half(hi) << 16;
#endif
}
/// Two floats as f16 (cut to its range) or bf16.
DEV u32 pack16(float lo, float hi, bool half) {
  return half ? pack_half(cut_to_half(lo), cut_to_half(hi)) : pack_bf16(lo, hi);
}
