// Q4_K: see k_blocks.hpp.
#include "k_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q4K {
  static constexpr quern_dtype dtype = QUERN_Q4_K;
  static constexpr const char* key = "q4_k.8x4.v1";
  static constexpr int bits = 4, block_bytes = 144;

  static void read(const Byte* block, Byte codes[256], Byte scales[16], Byte mins[8], std::uint16_t& d, std::uint16_t& dm) {
    d = half_at(block);
    dm = half_at(block + 2);
    read_six_bits(block + 4, scales, mins);
    for (int i = 0; i < 4; ++i)
      for (int e = 0; e < 32; ++e) {
        const Byte both = block[16 + 32 * i + e];
        codes[64 * i + e] = both & 15;
        codes[64 * i + 32 + e] = both >> 4;
      }
  }
};

}  // namespace

PackedLayout q4_k_layout() noexcept { return KEngine<Q4K>::layout(); }

}  // namespace quern::cpu::avx2::packed
