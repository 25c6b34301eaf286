// f16 weights, converted as they are read.
#include "floats.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct F16 : OneByOne {
  static constexpr quern_dtype dtype = QUERN_F16;
  static constexpr int bytes = 2;
  QUERN_VNNI_INLINE __m512 load(const Byte* p) { return load_halves(p); }
  static float one(const Byte* p) noexcept { return half_at(p); }
};

}  // namespace

PackedLayout f16_layout() noexcept { return Floats<F16>::layout("f16.16.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
