// Q8_0: bytes, stored plus 128 because vpdpbusd wants its first factor unsigned.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

struct Q80 : Q80Block {
  static void read(const Byte* block, int, Byte* codes) noexcept { read_signed(block + 2, codes); }
};

}  // namespace

PackedLayout q8_0_layout() noexcept { return Blocks32<Q80>::layout("q8_0.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
