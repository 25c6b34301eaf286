// Q4_0: see legacy_blocks.hpp.
#include "layouts.hpp"
#include "legacy_blocks.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q40 {
  static constexpr quern_dtype dtype = QUERN_Q4_0;
  static constexpr const char* key = "q4_0.8x4.v2";
  static constexpr int bits = 4;
  using Head = HalfHead<false>;
};

}  // namespace

PackedLayout q4_0_layout() noexcept { return LegacyEngine<Q40>::layout(); }

}  // namespace quern::cpu::avx2::packed
