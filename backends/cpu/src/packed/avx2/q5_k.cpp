// Q5_K: see k_blocks.hpp.
#include "k_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q5K {
  static constexpr quern_dtype dtype = QUERN_Q5_K;
  static constexpr const char* key = "q5_k.8x4.v2";
  static constexpr int bits = 5;

  static void read(const Byte* block, Byte codes[256], Byte scales[16], Byte mins[8], std::uint16_t& d, std::uint16_t& dm) {
    d = half_at(block);
    dm = half_at(block + 2);
    read_six_bits(block + 4, scales, mins);
    const __m256i fifths = load_unaligned(block + 16);  // bit b of byte e: of element 32 b + e
    for (int i = 0; i < 4; ++i) {
      const __m256i both = load_unaligned(block + 48 + 32 * i), here = _mm256_srli_epi16(fifths, 2 * i);
      put_codes(codes + 64 * i, both, _mm256_slli_epi16(here, 4), 16);
      put_codes(codes + 64 * i + 32, _mm256_srli_epi16(both, 4), _mm256_slli_epi16(here, 3), 16);
    }
  }
};

}  // namespace

PackedLayout q5_k_layout() noexcept { return KEngine<Q5K>::layout(); }

}  // namespace quern::cpu::avx2::packed
