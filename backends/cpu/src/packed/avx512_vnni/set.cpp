// The packed layouts of AVX-512 VNNI: panels of 16 rows x 4 k. BF16 adds two, before those that they are preferred to.
#include "layouts.hpp"

namespace quern::cpu {

const PackedSet& packed_set_avx512_bf16() noexcept {
  using namespace avx512_vnni::packed;
  static const PackedLayout layouts[] = {bf16_dot_layout(), f8_128_dot_layout(), f32_layout(),     f16_layout(),    bf16_layout(),
                                         q4_0_layout(),     q4_1_layout(),       q5_0_layout(),    q5_1_layout(),   q8_0_layout(),
                                         q4_k_layout(),     q5_k_layout(),       q6_k_layout(),    q4_z32_layout(), q4_z64_layout(),
                                         q4_z128_layout(),  q8_z32_layout(),     q8_z128_layout(), q8_128_layout(), f8_128_layout(),
                                         nf4_64_layout(),   fp4_64_layout()};
  static const PackedSet set{{layouts, sizeof(layouts) / sizeof(layouts[0])}, quantise};
  return set;
}
const PackedSet& packed_set_avx512_vnni() noexcept {
  static const PackedSet set{packed_set_avx512_bf16().layouts.subspan(2), packed_set_avx512_bf16().quantise};
  return set;
}

}  // namespace quern::cpu
