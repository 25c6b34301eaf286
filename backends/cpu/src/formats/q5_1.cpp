// Q5_1. Encoded: d = (max - min) / 31, m = min.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q5_1(const Byte* b, int, float* out) noexcept {
  const float d = scale_at(b), m = scale_at(b + 2);
  const std::uint32_t high = word_at(b + 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[8 + i] & 15) | (((high >> i) & 1u) << 4)) + m;
    out[i + 16] = d * static_cast<float>((b[8 + i] >> 4) | (((high >> (i + 16)) & 1u) << 4)) + m;
  }
}

void encode_q5_1(const float* x, Byte* b) noexcept {
  const Range r = range_of(x, 32);
  const float d = put_scale(b, (r.high - r.low) / 31.0f), m = put_scale(b + 2, r.low), inverse = inverse_of(d);
  five_bits(b + 8, b + 4, [&](int i) { return code_of(x[i] - m, inverse, 0.0f, 0, 31); });
}

}  // namespace

const BlockCodec q5_1_codec = {decode_q5_1, encode_q5_1};

}  // namespace quern::cpu
