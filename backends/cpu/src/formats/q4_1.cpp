// Q4_1. Encoded: d = (max - min) / 15, m = min.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q4_1(const Byte* b, int, float* out) noexcept {
  const float d = scale_at(b), m = scale_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

void encode_q4_1(const float* x, Byte* b) noexcept {
  const Range r = range_of(x, 32);
  const float d = put_scale(b, (r.high - r.low) / 15.0f), m = put_scale(b + 2, r.low), inverse = inverse_of(d);
  for (int i = 0; i < 16; ++i)
    b[4 + i] = static_cast<Byte>(code_of(x[i] - m, inverse, 0.0f, 0, 15) | (code_of(x[i + 16] - m, inverse, 0.0f, 0, 15) << 4));
}

}  // namespace

const BlockCodec q4_1_codec = {decode_q4_1, encode_q4_1};

}  // namespace quern::cpu
