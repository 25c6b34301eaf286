// Q4_1: see blocks32.hpp.
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q41 {
  static constexpr quern_dtype dtype = QUERN_Q4_1;
  static constexpr const char* key = "q4_1.8x4.v2";
  static constexpr int bits = 4;
  using Head = HalfHead<true>;
};

}  // namespace

PackedLayout q4_1_layout() noexcept { return Engine32<Q41>::layout(); }

}  // namespace quern::cpu::avx2::packed
