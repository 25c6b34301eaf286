// Q8_0: bytes, stored plus 128 because vpdpbusd wants its first factor unsigned.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q80 : Q80Block {
  static void read(const Byte* block, Byte* codes) noexcept {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 2));
    _mm256_store_si256(reinterpret_cast<__m256i*>(codes), _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)));
  }
};

}  // namespace

PackedLayout q8_0_layout() noexcept { return Blocks32<Q80>::layout("q8_0.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
