// philox4x32-10 (Salmon et al. 2011): random numbers of a counter and a key.
#pragma once
#include "prelude.cuh"

DEV uint4 philox(u32 c0, u32 c1, u32 c2, u32 k0, u32 k1) {
  u32 c3 = 0;
  for (int round = 0; round < 10; ++round) {
    const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(b >> 32) ^ c1 ^ k0;
    c1 = (u32)b;
    c2 = (u32)(a >> 32) ^ c3 ^ k1;
    c3 = (u32)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return make_uint4(c0, c1, c2, c3);
}
/// Of (0, 1).
DEV double unit_interval(u32 word) { return ((double)word + 0.5) / 4294967296.0; }
