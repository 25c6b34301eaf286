// Q4_K: see k_blocks.hpp.
#include "k_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q4K {
  static constexpr quern_dtype dtype = QUERN_Q4_K;
  static constexpr const char* key = "q4_k.8x4.v2";
  static constexpr int bits = 4;

  static void read(const Byte* block, Byte codes[256], Byte scales[16], Byte mins[8], std::uint16_t& d, std::uint16_t& dm) {
    d = half_at(block);
    dm = half_at(block + 2);
    read_six_bits(block + 4, scales, mins);
    const __m256i none = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      const __m256i both = load_unaligned(block + 16 + 32 * i);
      put_codes(codes + 64 * i, both, none, 0);
      put_codes(codes + 64 * i + 32, _mm256_srli_epi16(both, 4), none, 0);
    }
  }
};

}  // namespace

PackedLayout q4_k_layout() noexcept { return KEngine<Q4K>::layout(); }

}  // namespace quern::cpu::avx2::packed
