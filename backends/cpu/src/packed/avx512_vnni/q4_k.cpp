// Q4_K: nibbles; a 6-bit scale and minimum for 32.
#include "block_formats.hpp"
#include "blocks256.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q4K : Q4KBlock {
  static void read(const Byte* block, Byte* codes, Byte* scales, Byte* minimum) noexcept {
    read_sub_scales(block + 4, scales, minimum);
    for (int p = 0; p < 4; ++p) {
      const __m256i both = load_32(block + 16 + 32 * p), none = _mm256_setzero_si256();
      put_codes(codes + 64 * p, both, none, 0);
      put_codes(codes + 64 * p + 32, _mm256_srli_epi16(both, 4), none, 0);
    }
  }
};

}  // namespace

PackedLayout q4_k_layout() noexcept { return Blocks256<Q4K>::layout("q4_k.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
