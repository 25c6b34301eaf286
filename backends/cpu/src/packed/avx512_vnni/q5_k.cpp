// Q5_K: nibbles and fifth bits; a 6-bit scale and minimum for 32.
#include "blocks256.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q5K {
  static constexpr quern_dtype dtype = QUERN_Q5_K;
  static constexpr int bits = 5, scale_span = 32, offset = 0, block_bytes = 176, d_at = 0, side_ints = 4;
  static constexpr bool signed_scales = false, minimums = true;
  static void read(const Byte* block, Byte* codes, Byte* scales, Byte* minimum) noexcept {
    read_sub_scales(block + 4, scales, minimum);
    const Byte *high = block + 16, *low = block + 48;
    for (int p = 0; p < 4; ++p)
      for (int i = 0; i < 32; ++i) {
        codes[64 * p + i] = static_cast<Byte>((low[32 * p + i] & 15) | ((high[i] >> (2 * p)) & 1) << 4);
        codes[64 * p + 32 + i] = static_cast<Byte>((low[32 * p + i] >> 4) | ((high[i] >> (2 * p + 1)) & 1) << 4);
      }
  }
};

}  // namespace

PackedLayout q5_k_layout() noexcept { return Blocks256<Q5K>::layout("q5_k.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
