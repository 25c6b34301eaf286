// bf16 weights: the upper halves of floats.
#include "floats.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct BF16 : OneByOne {
  static constexpr quern_dtype dtype = QUERN_BF16;
  static constexpr int bytes = 2;
  QUERN_VNNI_INLINE __m512 load(const Byte* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }
  static float one(const Byte* p) noexcept { return bf16_at(p); }
};

}  // namespace

PackedLayout bf16_layout() noexcept { return Floats<BF16>::layout("bf16.16.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
