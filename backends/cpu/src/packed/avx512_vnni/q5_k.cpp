// Q5_K: nibbles and fifth bits; a 6-bit scale and minimum for 32.
#include "block_formats.hpp"
#include "blocks256.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q5K : Q5KBlock {
  static void read(const Byte* block, Byte* codes, Byte* scales, Byte* minimum) noexcept {
    read_sub_scales(block + 4, scales, minimum);
    const __m256i high = load_32(block + 16);  // bit b of byte i: the fifth bit of element 32 b + i
    QUERN_VNNI_UNROLL
    for (int p = 0; p < 4; ++p) {
      const __m256i both = load_32(block + 48 + 32 * p), here = _mm256_srli_epi16(high, 2 * p);
      put_codes(codes + 64 * p, both, _mm256_slli_epi16(here, 4), 16);
      put_codes(codes + 64 * p + 32, _mm256_srli_epi16(both, 4), _mm256_slli_epi16(here, 3), 16);
    }
  }
};

}  // namespace

PackedLayout q5_k_layout() noexcept { return Blocks256<Q5K>::layout("q5_k.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
