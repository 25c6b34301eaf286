// Q5_1: see legacy_blocks.hpp.
#include "layouts.hpp"
#include "legacy_blocks.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q51 {
  static constexpr quern_dtype dtype = QUERN_Q5_1;
  static constexpr const char* key = "q5_1.8x4.v2";
  static constexpr int bits = 5;
  using Head = HalfHead<true>;
};

}  // namespace

PackedLayout q5_1_layout() noexcept { return LegacyEngine<Q51>::layout(); }

}  // namespace quern::cpu::avx2::packed
