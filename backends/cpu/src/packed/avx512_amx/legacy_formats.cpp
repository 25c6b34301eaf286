// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, and the formats of quantised directories with codes of four and eight bits.
#include "blocks32.hpp"
#include "layouts.hpp"

#include "../avx512_vnni/block_formats.hpp"
#include "../avx512_vnni/layouts.hpp"

namespace quern::cpu::avx512_amx {
namespace {

struct Q40 : Q40Block {};
struct Q41 : Q41Block {};
struct Q50 : Q50Block {};
struct Q51 : Q51Block {};
struct Q80 : Q80Block {};
struct Q4Z32 : Q4Z32Block {};
struct Q4Z64 : Q4Z64Block {};
struct Q4Z128 : Q4Z128Block {};
struct Q8Z32 : Q8Z32Block {};
struct Q8Z128 : Q8Z128Block {};
struct Q8128 : Q8128Block {};

}  // namespace

PackedLayout q4_0_tile_layout() noexcept { return tile_layout<TileBlocks32<Q40, q4_0_layout>>(); }
PackedLayout q4_1_tile_layout() noexcept { return tile_layout<TileBlocks32<Q41, q4_1_layout>>(); }
PackedLayout q5_0_tile_layout() noexcept { return tile_layout<TileBlocks32<Q50, q5_0_layout>>(); }
PackedLayout q5_1_tile_layout() noexcept { return tile_layout<TileBlocks32<Q51, q5_1_layout>>(); }
PackedLayout q8_0_tile_layout() noexcept { return tile_layout<TileBlocks32<Q80, q8_0_layout>>(); }
PackedLayout q4_z32_tile_layout() noexcept { return tile_layout<TileBlocks32<Q4Z32, q4_z32_layout>>(); }
PackedLayout q4_z64_tile_layout() noexcept { return tile_layout<TileBlocks32<Q4Z64, q4_z64_layout>>(); }
PackedLayout q4_z128_tile_layout() noexcept { return tile_layout<TileBlocks32<Q4Z128, q4_z128_layout>>(); }
PackedLayout q8_z32_tile_layout() noexcept { return tile_layout<TileBlocks32<Q8Z32, q8_z32_layout>>(); }
PackedLayout q8_z128_tile_layout() noexcept { return tile_layout<TileBlocks32<Q8Z128, q8_z128_layout>>(); }
PackedLayout q8_128_tile_layout() noexcept { return tile_layout<TileBlocks32<Q8128, q8_128_layout>>(); }

}  // namespace quern::cpu::avx512_amx
