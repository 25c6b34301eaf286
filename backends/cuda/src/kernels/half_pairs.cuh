// Pairs of f16 in a word: arithmetic, codes that become such pairs, and the loads that bring both operands of a product to a lane.
#pragma once
#include "matrix.cuh"

// Pairs of f16.
enum : u32 {
  TWO_64 = 0x54005400,          // 64 + n / 16 for a mantissa n
  TWO_1024 = 0x64006400,        // 1024 + n
  LESS_1024 = 0xe400e400,       // -1024
  LESS_1032 = 0xe408e408,       // -1032
  LESS_1040 = 0xe410e410,       // -1040
  LESS_1056 = 0xe420e420,       // -1056
  LESS_1152 = 0xe480e480,       // -1152
  LESS_96 = 0xd600d600,         // -96
  LESS_64 = 0xd400d400,         // -64
  LESS_8 = 0xc800c800,          // -8
  TWO_SIXTEENTHS = 0x2c002c00,  // 1 / 16
};

#if __CUDA_ARCH__ >= 900 && !defined(QUERN_EMULATED_CARD)
/// d = a * b + c in two halves.
DEV u32 fma2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
DEV u32 mul2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
DEV u32 add2(u32 a, u32 b) {
  u32 d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
DEV u32 sub2(u32 a, u32 b) {
  u32 d;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
/// a & mask | b in one instruction.
DEV u32 merged(u32 a, u32 mask, u32 b) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(b));
  return d;
}
/// The four numbers of eight bits (e4m3) of a word, as two pairs.
DEV void e4m3_pairs(u32 word, u32* pairs) {
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
      : "=r"(pairs[0]), "=r"(pairs[1]) : "r"(word));
}
DEV u32 turned_right(u32 word, int bits) { return __funnelshift_r(word, word, bits); }
DEV void copy_16(u32 to, const char* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
DEV void copy_8(u32 to, const char* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory"); }
DEV void copy_4(u32 to, const char* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory"); }
/// In their place: earlier they would take registers.
DEV uint4 load_16(u32 p) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(p));
  return v;
}
DEV uint2 load_8(u32 p) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(p));
  return v;
}
DEV u32 load_4(u32 p) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(p));
  return v;
}
#endif

#if __CUDA_ARCH__ >= 900 || defined(QUERN_EMULATED_CARD)
DEV void multiply_half(float* c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const u32 a[4] = {a0, a1, a2, a3};
  multiply16<true>(c, a, b0, b1);
}
/// The bytes of a word, two at a time, as 1024 more than they are: bytes 0 and 1 with 0x4140, 2 and 3 with 0x4342; one of them twice.
DEV u32 bytes_1024(u32 word, u32 which) { return __byte_perm(word, TWO_1024 >> 8, which); }
#endif
