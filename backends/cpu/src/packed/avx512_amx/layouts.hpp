// What the files of this folder give to set.cpp: the layouts of avx512_vnni whose products may be made by tiles.
#pragma once

#include "../packed.hpp"

namespace quern::cpu::avx512_amx {

#define QUERN_CPU_LAYOUT(FORMAT, format, with) PackedLayout format##_tile_layout() noexcept;
QUERN_CPU_PACKED_FORMATS(QUERN_CPU_LAYOUT, )
#undef QUERN_CPU_LAYOUT

}  // namespace quern::cpu::avx512_amx
