// Formats of quantised directories whose blocks begin with a word: codes of four and eight bits.
#include "block_formats.hpp"
#include "blocks32.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

template <typename Block>
struct Zero : Block {
  static void read(const Byte* block, int part, Byte* codes) noexcept {
    const Byte* from = block + 4 + 4 * Block::bits * part;
    if constexpr (Block::bits == 4) read_nibbles(from, codes);
    else __builtin_memcpy(codes, from, 32);
  }
};
struct Q8128 : Q8128Block {
  static void read(const Byte* block, int part, Byte* codes) noexcept { read_signed(block + 4 + 32 * part, codes); }
};

}  // namespace

PackedLayout q4_z32_layout() noexcept { return Blocks32<Zero<Q4Z32Block>>::layout("q4_z32.16x4.v1"); }
PackedLayout q4_z64_layout() noexcept { return Blocks32<Zero<Q4Z64Block>>::layout("q4_z64.16x4.v1"); }
PackedLayout q4_z128_layout() noexcept { return Blocks32<Zero<Q4Z128Block>>::layout("q4_z128.16x4.v1"); }
PackedLayout q8_z32_layout() noexcept { return Blocks32<Zero<Q8Z32Block>>::layout("q8_z32.16x4.v1"); }
PackedLayout q8_z128_layout() noexcept { return Blocks32<Zero<Q8Z128Block>>::layout("q8_z128.16x4.v1"); }
PackedLayout q8_128_layout() noexcept { return Blocks32<Q8128>::layout("q8_128.16x4.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
