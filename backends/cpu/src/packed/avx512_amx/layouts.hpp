// What the files of this folder give to set.cpp: the layouts of avx512_vnni whose products may be made by tiles.
#pragma once

#include "../packed.hpp"

namespace quern::cpu::avx512_amx {

PackedLayout q4_0_tile_layout() noexcept;
PackedLayout q4_1_tile_layout() noexcept;
PackedLayout q5_0_tile_layout() noexcept;
PackedLayout q5_1_tile_layout() noexcept;
PackedLayout q8_0_tile_layout() noexcept;
PackedLayout q4_z32_tile_layout() noexcept;
PackedLayout q4_z64_tile_layout() noexcept;
PackedLayout q4_z128_tile_layout() noexcept;
PackedLayout q8_z32_tile_layout() noexcept;
PackedLayout q8_z128_tile_layout() noexcept;
PackedLayout q8_128_tile_layout() noexcept;
PackedLayout q4_k_tile_layout() noexcept;
PackedLayout q5_k_tile_layout() noexcept;
PackedLayout q6_k_tile_layout() noexcept;

}  // namespace quern::cpu::avx512_amx
