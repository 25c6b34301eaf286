// Q4_K, Q5_K and Q6_K.
#include "blocks256.hpp"
#include "layouts.hpp"

#include "../avx512_vnni/block_formats.hpp"
#include "../avx512_vnni/layouts.hpp"

namespace quern::cpu::avx512_amx {
namespace {

struct Q4K : Q4KBlock {};
struct Q5K : Q5KBlock {};
struct Q6K : Q6KBlock {};

}  // namespace

PackedLayout q4_k_tile_layout() noexcept { return tile_layout<TileBlocks256<Q4K, q4_k_layout>>(); }
PackedLayout q5_k_tile_layout() noexcept { return tile_layout<TileBlocks256<Q5K, q5_k_layout>>(); }
PackedLayout q6_k_tile_layout() noexcept { return tile_layout<TileBlocks256<Q6K, q6_k_layout>>(); }

}  // namespace quern::cpu::avx512_amx
