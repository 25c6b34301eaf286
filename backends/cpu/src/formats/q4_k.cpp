// Q4_K. Encoded: each 32: scale = (max - min(min, 0)) / 15 and -min(min, 0), in units of the largest / 63.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q4_k(const Byte* b, int j, float* out) noexcept {
  const float d = scale_at(b), dm = scale_at(b + 2);
  float scale, minimum;
  sub_scales(b + 4, j, scale, minimum);
  scale *= d;
  minimum *= dm;
  const Byte* codes = b + 16 + (j / 2) * 32;
  const int shift = (j & 1) * 4;
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>((codes[i] >> shift) & 15) - minimum;
}

void encode_q4_k(const float* x, Byte* b) noexcept {
  float scale[8], minimum[8];
  super_scales(x, 15.0f, b, scale, minimum);
  for (int j = 0; j < 8; j += 2)
    for (int i = 0; i < 32; ++i) {
      const int low = code_of(x[32 * j + i] + minimum[j], inverse_of(scale[j]), 0.0f, 0, 15);
      const int high = code_of(x[32 * j + 32 + i] + minimum[j + 1], inverse_of(scale[j + 1]), 0.0f, 0, 15);
      b[16 + 16 * j + i] = static_cast<Byte>(low | (high << 4));
    }
}

}  // namespace

const BlockCodec q4_k_codec = {decode_q4_k, encode_q4_k};

}  // namespace quern::cpu
