// Q5_0: see blocks32.hpp.
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q50 {
  static constexpr quern_dtype dtype = QUERN_Q5_0;
  static constexpr const char* key = "q5_0.8x4.v2";
  static constexpr int bits = 5;
  using Head = HalfHead<false>;
};

}  // namespace

PackedLayout q5_0_layout() noexcept { return Engine32<Q50>::layout(); }

}  // namespace quern::cpu::avx2::packed
