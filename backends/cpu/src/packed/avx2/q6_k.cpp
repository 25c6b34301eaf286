// Q6_K: see k_blocks.hpp.
#include "k_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q6K {
  static constexpr quern_dtype dtype = QUERN_Q6_K;
  static constexpr const char* key = "q6_k.8x4.v2";
  static constexpr int bits = 6;

  static void read(const Byte* block, Byte codes[256], Byte scales[16], Byte[8], std::uint16_t& d, std::uint16_t& dm) {
    d = half_at(block + 208);
    dm = 0;
    __builtin_memcpy(scales, block + 192, 16);
    // Element 128 h + 64 n + 32 p + l: low bits in nibble n of byte 64 h + 32 p + l, high bits in pair 2 n + p of byte 32 h + l.
    for (int h = 0; h < 2; ++h) {
      const __m256i high = load_unaligned(block + 128 + 32 * h);
      for (int p = 0; p < 2; ++p) {
        const __m256i low = load_unaligned(block + 64 * h + 32 * p), here = _mm256_srli_epi16(high, 2 * p);
        put_codes(codes + 128 * h + 32 * p, low, _mm256_slli_epi16(here, 4), 48);
        put_codes(codes + 128 * h + 64 + 32 * p, _mm256_srli_epi16(low, 4), here, 48);
      }
    }
  }
};

}  // namespace

PackedLayout q6_k_layout() noexcept { return KEngine<Q6K>::layout(); }

}  // namespace quern::cpu::avx2::packed
