// Q4_0: nibbles with offset 8.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q40 : Q40Block {
  static void read(const Byte* block, int, Byte* codes) noexcept { read_nibbles(block + 2, codes); }
};

}  // namespace

PackedLayout q4_0_layout() noexcept { return Blocks32<Q40>::layout("q4_0.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
