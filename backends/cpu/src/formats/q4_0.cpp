// Q4_0. Encoded: d = x* / -8, x* the element of largest magnitude, so that it is met exactly.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q4_0(const Byte* b, int, float* out) noexcept {
  const float d = scale_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

void encode_q4_0(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, extreme(x, 32) / -8.0f), inverse = inverse_of(d);
  for (int i = 0; i < 16; ++i)
    b[2 + i] = static_cast<Byte>(code_of(x[i], inverse, 8.0f, 0, 15) | (code_of(x[i + 16], inverse, 8.0f, 0, 15) << 4));
}

}  // namespace

const BlockCodec q4_0_codec = {decode_q4_0, encode_q4_0};

}  // namespace quern::cpu
