// Q5_K. Encoded: each 32: scale = (max - min(min, 0)) / 31 and -min(min, 0), in units of the largest / 63.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q5_k(const Byte* b, int j, float* out) noexcept {
  const float d = scale_at(b), dm = scale_at(b + 2);
  float scale, minimum;
  sub_scales(b + 4, j, scale, minimum);
  scale *= d;
  minimum *= dm;
  const Byte *high = b + 16, *codes = b + 48 + (j / 2) * 32;
  const int shift = (j & 1) * 4;
  for (int i = 0; i < 32; ++i) {
    const int code = ((codes[i] >> shift) & 15) | (((high[i] >> j) & 1) << 4);
    out[i] = scale * static_cast<float>(code) - minimum;
  }
}

void encode_q5_k(const float* x, Byte* b) noexcept {
  float scale[8], minimum[8];
  super_scales(x, 31.0f, b, scale, minimum);
  std::fill_n(b + 16, 32, Byte{0});
  for (int j = 0; j < 8; j += 2)
    for (int i = 0; i < 32; ++i) {
      const int low = code_of(x[32 * j + i] + minimum[j], inverse_of(scale[j]), 0.0f, 0, 31);
      const int high = code_of(x[32 * j + 32 + i] + minimum[j + 1], inverse_of(scale[j + 1]), 0.0f, 0, 31);
      b[48 + 16 * j + i] = static_cast<Byte>((low & 15) | ((high & 15) << 4));
      b[16 + i] = static_cast<Byte>(b[16 + i] | ((low >> 4) << j) | ((high >> 4) << (j + 1)));
    }
}

}  // namespace

const BlockCodec q5_k_codec = {decode_q5_k, encode_q5_k};

}  // namespace quern::cpu
