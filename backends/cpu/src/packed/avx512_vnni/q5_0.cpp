// Q5_0: 5 bits with offset 16.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q50 : Q50Block {
  static void read(const Byte* block, int, Byte* codes) noexcept {
    read_nibbles(block + 6, codes);
    read_fifth_bits(block + 2, codes);
  }
};

}  // namespace

PackedLayout q5_0_layout() noexcept { return Blocks32<Q50>::layout("q5_0.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
