// Q4_0: nibbles with offset 8.
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q40 {
  static constexpr quern_dtype dtype = QUERN_Q4_0;
  static constexpr int bits = 4, offset = 8, block_bytes = 18;
  static constexpr bool minimums = false;
  static void read(const Byte* block, Byte* codes) noexcept {
    read_nibbles(block + 2, codes);
  }
};

}  // namespace

PackedLayout q4_0_layout() noexcept { return Blocks32<Q40>::layout("q4_0.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
