// The packed layouts of AVX-512 VNNI that AMX multiplies too.
#include "layouts.hpp"

namespace quern::cpu {

const PackedSet& packed_set_avx512_amx() noexcept {
  using namespace avx512_amx;
  static const PackedLayout layouts[] = {q4_0_tile_layout(),    q4_1_tile_layout(),   q5_0_tile_layout(),    q5_1_tile_layout(),
                                         q8_0_tile_layout(),    q4_k_tile_layout(),   q5_k_tile_layout(),    q6_k_tile_layout(),
                                         q4_z32_tile_layout(),  q4_z64_tile_layout(), q4_z128_tile_layout(), q8_z32_tile_layout(),
                                         q8_z128_tile_layout(), q8_128_tile_layout()};
  static const PackedSet set{{layouts, sizeof(layouts) / sizeof(layouts[0])}, packed_set_avx512_vnni().quantise};
  return set;
}

}  // namespace quern::cpu
