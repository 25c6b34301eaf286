// Q6_K. Encoded: each 16: scale = x* / -32, x* the element of largest magnitude, in units of the scale of largest magnitude / -128.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q6_k(const Byte* b, int part, float* out) noexcept {
  const float d = scale_at(b + 208);
  for (int e = 0; e < 32; ++e) {
    const int i = 32 * part + e;
    // Element i = 128 h + 64 n + 32 p + l: low bits in byte 64 h + 32 p + l, nibble n; high bits in byte 32 h + l, pair 2 n + p.
    const int h = i >> 7, n = (i >> 6) & 1, p = (i >> 5) & 1, l = i & 31;
    const int low = (b[64 * h + 32 * p + l] >> (4 * n)) & 15, high = (b[128 + 32 * h + l] >> (4 * n + 2 * p)) & 3;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(b[192 + i / 16]));
    out[e] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
}

void encode_q6_k(const float* x, Byte* b) noexcept {
  float scale[16];
  for (int g = 0; g < 16; ++g) scale[g] = extreme(x + 16 * g, 16) / -32.0f;
  const float d = put_scale(b + 208, extreme(scale, 16) / -128.0f), inverse = inverse_of(d);
  std::fill_n(b, 192, Byte{0});
  for (int g = 0; g < 16; ++g) {
    const int s = code_of(scale[g], inverse, 0.0f, -128, 127);
    b[192 + g] = static_cast<Byte>(static_cast<std::int8_t>(s));
    const float step_inverse = inverse_of(d * static_cast<float>(s));
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int code = code_of(x[i], step_inverse, 32.0f, 0, 63), h = i >> 7, n = (i >> 6) & 1, p = (i >> 5) & 1, l = i & 31;
      b[64 * h + 32 * p + l] = static_cast<Byte>(b[64 * h + 32 * p + l] | ((code & 15) << (4 * n)));
      b[128 + 32 * h + l] = static_cast<Byte>(b[128 + 32 * h + l] | ((code >> 4) << (4 * n + 2 * p)));
    }
  }
}

}  // namespace

const BlockCodec q6_k_codec = {decode_q6_k, encode_q6_k};

}  // namespace quern::cpu
