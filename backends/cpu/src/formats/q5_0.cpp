// Q5_0. Encoded: d = x* / -16, x* the element of largest magnitude, so that it is met exactly.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q5_0(const Byte* b, int, float* out) noexcept {
  const float d = scale_at(b);
  const std::uint32_t high = word_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (static_cast<float>((b[6 + i] & 15) | (((high >> i) & 1u) << 4)) - 16.0f);
    out[i + 16] = d * (static_cast<float>((b[6 + i] >> 4) | (((high >> (i + 16)) & 1u) << 4)) - 16.0f);
  }
}

void encode_q5_0(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, extreme(x, 32) / -16.0f), inverse = inverse_of(d);
  five_bits(b + 6, b + 2, [&](int i) { return code_of(x[i], inverse, 16.0f, 0, 31); });
}

}  // namespace

const BlockCodec q5_0_codec = {decode_q5_0, encode_q5_0};

}  // namespace quern::cpu
