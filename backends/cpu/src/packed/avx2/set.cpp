// The packed layouts of AVX2: panels of 8 rows x 4 k. Every machine with AVX2, FMA and F16C can run them.
#include "layouts.hpp"

namespace quern::cpu {

const PackedSet& packed_set_avx2() noexcept {
  using namespace avx2::packed;
  static const PackedLayout layouts[] = {f32_layout(),     f16_layout(),    bf16_layout(),   q4_0_layout(),    q4_1_layout(),
                                         q5_0_layout(),    q5_1_layout(),   q8_0_layout(),   q4_k_layout(),    q5_k_layout(),
                                         q6_k_layout(),    q4_z32_layout(), q4_z64_layout(), q4_z128_layout(), q8_z32_layout(),
                                         q8_z128_layout(), q8_128_layout(), f8_128_layout(), nf4_64_layout(),  fp4_64_layout()};
  static const PackedSet set{{layouts, sizeof(layouts) / sizeof(layouts[0])}, quantise};
  return set;
}

}  // namespace quern::cpu
