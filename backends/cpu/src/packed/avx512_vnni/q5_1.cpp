// Q5_1: 5 bits with a minimum.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q51 : Q51Block {
  static void read(const Byte* block, int, Byte* codes) noexcept {
    read_nibbles(block + 8, codes);
    read_fifth_bits(block + 4, codes);
  }
};

}  // namespace

PackedLayout q5_1_layout() noexcept { return Blocks32<Q51>::layout("q5_1.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
