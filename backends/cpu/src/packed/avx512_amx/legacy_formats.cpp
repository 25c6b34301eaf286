// Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.
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

}  // namespace

PackedLayout q4_0_tile_layout() noexcept { return tile_layout<TileBlocks32<Q40, q4_0_layout>>(); }
PackedLayout q4_1_tile_layout() noexcept { return tile_layout<TileBlocks32<Q41, q4_1_layout>>(); }
PackedLayout q5_0_tile_layout() noexcept { return tile_layout<TileBlocks32<Q50, q5_0_layout>>(); }
PackedLayout q5_1_tile_layout() noexcept { return tile_layout<TileBlocks32<Q51, q5_1_layout>>(); }
PackedLayout q8_0_tile_layout() noexcept { return tile_layout<TileBlocks32<Q80, q8_0_layout>>(); }

}  // namespace quern::cpu::avx512_amx
