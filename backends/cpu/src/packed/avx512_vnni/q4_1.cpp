// Q4_1: nibbles with a minimum.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q41 : Q41Block {
  static void read(const Byte* block, int, Byte* codes) noexcept { read_nibbles(block + 4, codes); }
};

}  // namespace

PackedLayout q4_1_layout() noexcept { return Blocks32<Q41>::layout("q4_1.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
