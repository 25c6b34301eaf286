// bf16 weights against bf16 activations, two of k an instruction: AVX-512 BF16. A sum of pairs is rounded to f32 after each product;
// subnormal factors and sums count as zero there.
#include "floats.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct BF16Pairs {
  static constexpr quern_dtype dtype = QUERN_BF16;
  static constexpr bool coded = false;
  static constexpr int bytes = 2, together = 2, widest = 12;
  static constexpr Activations activations = Activations::bf16;
  QUERN_VNNI_INLINE __m512 load(const Byte* p) { return _mm512_castsi512_ps(packed::load(p)); }
  QUERN_VNNI_INLINE __m512 add_product(__m512 weights, __m512 x, __m512 sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(x));
  }
  static float one(const Byte* p) noexcept { return bf16_at(p); }
};

}  // namespace

PackedLayout bf16_dot_layout() noexcept { return Floats<BF16Pairs>::layout("bf16.16x2.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
