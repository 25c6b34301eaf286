// Q8_0: see byte_blocks.hpp.
#include "byte_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q80 {
  static constexpr quern_dtype dtype = QUERN_Q8_0;
  static constexpr const char* key = "q8_0.8x4.v2";
  using Head = HalfHead<false>;
};

}  // namespace

PackedLayout q8_0_layout() noexcept { return ByteEngine<Q80>::layout(); }

}  // namespace quern::cpu::avx2::packed
