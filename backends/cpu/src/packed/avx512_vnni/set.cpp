// The packed layouts of AVX-512 VNNI: panels of 16 rows x 4 k. BF16 adds two, before those that they are preferred to.
#include "layouts.hpp"

namespace quern::cpu {

const PackedSet& packed_set_avx512_bf16() noexcept {
  using namespace avx512_vnni::packed;
#define QUERN_CPU_LAYOUT(FORMAT, format, with) format##_layout(),
  static const PackedLayout layouts[] = {
      bf16_dot_layout(), f8_128_dot_layout(), f32_layout(),
      f16_layout(),      bf16_layout(),       QUERN_CPU_PACKED_FORMATS(QUERN_CPU_LAYOUT, ) QUERN_CPU_CODED_FORMATS(QUERN_CPU_LAYOUT, )};
#undef QUERN_CPU_LAYOUT
  static const PackedSet set{{layouts, sizeof(layouts) / sizeof(layouts[0])}, quantise};
  return set;
}
const PackedSet& packed_set_avx512_vnni() noexcept {
  static const PackedSet set{packed_set_avx512_bf16().layouts.subspan(2), packed_set_avx512_bf16().quantise};
  return set;
}

}  // namespace quern::cpu
