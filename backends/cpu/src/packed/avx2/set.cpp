// The packed layouts of AVX2: panels of 8 rows x 4 k. Every machine with AVX2, FMA and F16C can run them.
#include "layouts.hpp"

namespace quern::cpu {

const PackedSet& packed_set_avx2() noexcept {
  using namespace avx2::packed;
#define QUERN_CPU_LAYOUT(FORMAT, format, with) format##_layout(),
  static const PackedLayout layouts[] = {f32_layout(), f16_layout(), bf16_layout(),
                                         QUERN_CPU_PACKED_FORMATS(QUERN_CPU_LAYOUT, ) QUERN_CPU_CODED_FORMATS(QUERN_CPU_LAYOUT, )
                                             nf4_64_floats_layout(),
                                         fp4_64_floats_layout()};
#undef QUERN_CPU_LAYOUT
  static const PackedSet set{{layouts, sizeof(layouts) / sizeof(layouts[0])}, quantise};
  return set;
}

}  // namespace quern::cpu
