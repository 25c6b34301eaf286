// Q5_K: see k_blocks.hpp.
#include "k_blocks.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct Q5K {
  static constexpr quern_dtype dtype = QUERN_Q5_K;
  static constexpr const char* key = "q5_k.8x4.v1";
  static constexpr int bits = 5, block_bytes = 176;

  static void read(const Byte* block, Byte codes[256], Byte scales[16], Byte mins[8], std::uint16_t& d, std::uint16_t& dm) {
    d = half_at(block);
    dm = half_at(block + 2);
    read_six_bits(block + 4, scales, mins);
    for (int i = 0; i < 4; ++i)
      for (int e = 0; e < 32; ++e) {
        const Byte fifth = block[16 + e] >> (2 * i), both = block[48 + 32 * i + e];
        codes[64 * i + e] = static_cast<Byte>((both & 15) | ((fifth & 1) << 4));
        codes[64 * i + 32 + e] = static_cast<Byte>((both >> 4) | ((fifth & 2) << 3));
      }
  }
};

}  // namespace

PackedLayout q5_k_layout() noexcept { return KEngine<Q5K>::layout(); }

}  // namespace quern::cpu::avx2::packed
