// bf16 and F8_128 weights against bf16 activations, two of k an instruction: AVX-512 BF16. A sum of pairs is rounded to f32 after each product;
// subnormal factors and sums count as zero there.
#include "coded_f8.hpp"
#include "floats.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Pairs {
  static constexpr Activations activations = Activations::bf16;
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(x));
  }
};

struct BF16Pairs : Pairs {
  static constexpr quern_dtype dtype = QUERN_BF16;
  static constexpr bool coded = false;
  static constexpr int bytes = 2, together = 2, widest = 12;
  QUERN_VNNI_INLINE __m512 load(const Byte* p) { return _mm512_castsi512_ps(packed::load(p)); }
  static float one(const Byte* p) noexcept { return bf16_at(p); }
};

alignas(16) constexpr std::uint16_t subnormal_codes[8] = {0x0000, 0x3700, 0x3780, 0x37c0, 0x3800, 0x3820, 0x3840, 0x3860};

/// The panels of F8. Every code is a bf16, 2^-8 of what it stands for: seven bits below an exponent's upper four, but for codes below the
/// smallest normal number, which come from a table of their lower three bits.
struct F8Pairs : F8 {
  static constexpr int together = 2;
  static constexpr float wide_factor = factor;
  static constexpr Activations activations = Pairs::activations;
  using Single = F8;
  struct Line {
    __m512i pairs[2];
  };
  QUERN_VNNI_INLINE __m512i words(const Byte* p) { return _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(p))); }
  QUERN_VNNI_INLINE __m512i pairs(__m512i codes) {
    const __m512i table = _mm512_zextsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(subnormal_codes)));
    const __m512i normal =  // (codes << 4 & 0x7f0) | 0x3800
        _mm512_ternarylogic_epi32(_mm512_slli_epi16(codes, 4), _mm512_set1_epi16(0x7f0), _mm512_set1_epi16(0x3800), 0xea);
    const __m512i size = _mm512_mask_permutexvar_epi16(normal, _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x78)), codes, table);
    return _mm512_ternarylogic_epi32(size, codes, _mm512_set1_epi16(-0x8000), 0xf8);  // size | (codes & 0x8000)
  }
  QUERN_VNNI_INLINE Line line(const Byte* p) { return {{pairs(words(p)), pairs(words(p + 32))}}; }
  template <int J>
  QUERN_VNNI_INLINE __m512 value(const Line& l) {
    return _mm512_castsi512_ps(l.pairs[J]);
  }
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) { return Pairs::add_product(weights, x, sum); }
  QUERN_VNNI_INLINE __m512 whole(const Byte* p, int j, __m512 value) {
    const __m512i largest = _mm512_set1_epi16(0x7f), codes = _mm512_and_si512(words(p + 32 * j), largest);
    return _mm512_castsi512_ps(_mm512_mask_blend_epi16(_mm512_cmpeq_epi16_mask(codes, largest), _mm512_castps_si512(value),
                                                       _mm512_set1_epi16(0x7fff)));
  }
};

}  // namespace

PackedLayout f8_128_dot_layout() noexcept { return Floats<F8Pairs>::layout("f8_128.16x4x2.v1"); }
PackedLayout bf16_dot_layout() noexcept { return Floats<BF16Pairs>::layout("bf16.16x2.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
