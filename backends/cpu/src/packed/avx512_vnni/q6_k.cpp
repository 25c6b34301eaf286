// Q6_K: 6 bits with offset 32; a signed 8-bit scale for 16.
#include "blocks256.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q6K {
  static constexpr quern_dtype dtype = QUERN_Q6_K;
  static constexpr int bits = 6, scale_span = 16, offset = 32, block_bytes = 210, d_at = 208, side_ints = 16;
  static constexpr bool signed_scales = true, minimums = false;
  static void read(const Byte* block, Byte* codes, Byte* scales, Byte*) noexcept {
    __builtin_memcpy(scales, block + 192, 16);
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 32; ++i) {
        const Byte low = block[64 * h + i], next = block[64 * h + 32 + i], high = block[128 + 32 * h + i];
        Byte* to = codes + 128 * h + i;
        to[0] = static_cast<Byte>((low & 15) | (high & 3) << 4);
        to[32] = static_cast<Byte>((next & 15) | ((high >> 2) & 3) << 4);
        to[64] = static_cast<Byte>((low >> 4) | ((high >> 4) & 3) << 4);
        to[96] = static_cast<Byte>((next >> 4) | (high >> 6) << 4);
      }
  }
};

}  // namespace

PackedLayout q6_k_layout() noexcept { return Blocks256<Q6K>::layout("q6_k.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
