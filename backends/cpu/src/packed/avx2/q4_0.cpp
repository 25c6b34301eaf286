// Q4_0: see blocks32.hpp.
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q40 {
  static constexpr quern_dtype dtype = QUERN_Q4_0;
  static constexpr const char* key = "q4_0.8x4.v2";
  static constexpr int bits = 4;
  using Head = HalfHead<false>;
};

}  // namespace

PackedLayout q4_0_layout() noexcept { return Engine32<Q40>::layout(); }

}  // namespace quern::cpu::avx2::packed
