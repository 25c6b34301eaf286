// f32 weights.
#include "floats.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct F32 : OneByOne {
  static constexpr quern_dtype dtype = QUERN_F32;
  static constexpr int bytes = 4;
  QUERN_VNNI_INLINE __m512 load(const Byte* p) { return _mm512_load_ps(p); }
  static float one(const Byte* p) noexcept {
    float x;
    __builtin_memcpy(&x, p, 4);
    return x;
  }
};

}  // namespace

PackedLayout f32_layout() noexcept { return Floats<F32>::layout("f32.16.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
