// Q6_K: see k_blocks.hpp.
#include "k_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q6K {
  static constexpr quern_dtype dtype = QUERN_Q6_K;
  static constexpr const char* key = "q6_k.8x4.v1";
  static constexpr int bits = 6, block_bytes = 210;

  static void read(const Byte* block, Byte codes[256], Byte scales[16], Byte[8], std::uint16_t& d, std::uint16_t& dm) {
    d = half_at(block + 208);
    dm = 0;
    __builtin_memcpy(scales, block + 192, 16);
    // Element 128 h + 64 n + 32 p + l: low bits in nibble n of byte 64 h + 32 p + l, high bits in pair 2 n + p of byte 32 h + l.
    for (int h = 0; h < 2; ++h)
      for (int p = 0; p < 2; ++p)
        for (int l = 0; l < 32; ++l) {
          const Byte low = block[64 * h + 32 * p + l], high = static_cast<Byte>(block[128 + 32 * h + l] >> (2 * p));
          codes[128 * h + 32 * p + l] = static_cast<Byte>((low & 15) | ((high & 3) << 4));
          codes[128 * h + 64 + 32 * p + l] = static_cast<Byte>((low >> 4) | (high & 48));
        }
  }
};

}  // namespace

PackedLayout q6_k_layout() noexcept { return KEngine<Q6K>::layout(); }

}  // namespace quern::cpu::avx2::packed
