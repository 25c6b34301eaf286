// Q5_1: see blocks32.hpp.
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q51 {
  static constexpr quern_dtype dtype = QUERN_Q5_1;
  static constexpr const char* key = "q5_1.8x4.v2";
  static constexpr int bits = 5;
  using Head = HalfHead<true>;
};

}  // namespace

PackedLayout q5_1_layout() noexcept { return Engine32<Q51>::layout(); }

}  // namespace quern::cpu::avx2::packed
