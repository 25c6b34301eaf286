// Q8_0: see blocks32.hpp.
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q80 {
  static constexpr quern_dtype dtype = QUERN_Q8_0;
  static constexpr const char* key = "q8_0.8x4.v2";
  static constexpr int bits = 8;
  using Head = HalfHead<false>;
};

}  // namespace

PackedLayout q8_0_layout() noexcept { return Engine32<Q80>::layout(); }

}  // namespace quern::cpu::avx2::packed
