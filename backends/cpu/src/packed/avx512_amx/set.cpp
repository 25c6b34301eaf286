// The packed layouts of AVX-512 VNNI that AMX multiplies too.
#include "layouts.hpp"

namespace quern::cpu {

const PackedSet& packed_set_avx512_amx() noexcept {
  using namespace avx512_amx;
#define QUERN_CPU_LAYOUT(FORMAT, format, with) format##_tile_layout(),
  static const PackedLayout layouts[] = {QUERN_CPU_PACKED_FORMATS(QUERN_CPU_LAYOUT, )};
#undef QUERN_CPU_LAYOUT
  static const PackedSet set{{layouts, sizeof(layouts) / sizeof(layouts[0])}, packed_set_avx512_vnni().quantise};
  return set;
}

}  // namespace quern::cpu
