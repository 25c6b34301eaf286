// Q6_K: 6 bits with offset 32; a signed 8-bit scale for 16.
#include "block_formats.hpp"
#include "blocks256.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q6K : Q6KBlock {
  static void read(const Byte* block, Byte* codes, Byte* scales, Byte*) noexcept {
    __builtin_memcpy(scales, block + 192, 16);
    for (int h = 0; h < 2; ++h) {
      const __m256i low = load_32(block + 64 * h), next = load_32(block + 64 * h + 32), high = load_32(block + 128 + 32 * h);
      Byte* to = codes + 128 * h;
      put_codes(to, low, _mm256_slli_epi16(high, 4), 48);
      put_codes(to + 32, next, _mm256_slli_epi16(high, 2), 48);
      put_codes(to + 64, _mm256_srli_epi16(low, 4), high, 48);
      put_codes(to + 96, _mm256_srli_epi16(next, 4), _mm256_srli_epi16(high, 2), 48);
    }
  }
};

}  // namespace

PackedLayout q6_k_layout() noexcept { return Blocks256<Q6K>::layout("q6_k.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
