// Q8_128: an f32 and signed codes of eight bits. Encoded: d = max|x| / 127.
#include "whole_scales.hpp"

namespace quern::cpu {
namespace {

void decode_q8_128(const Byte* b, int part, float* out) noexcept {
  const float d = whole_scale_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<signed char>(b[4 + 32 * part + i]));
}

void encode_q8_128(const float* x, Byte* b) noexcept {
  const float inverse = inverse_of(put_whole_scale(b, std::fabs(extreme(x, 128)) / 127.0f));
  for (int i = 0; i < 128; ++i) b[4 + i] = static_cast<Byte>(code_of(x[i], inverse, 0.0f, -127, 127));
}

}  // namespace

const BlockCodec q8_128_codec = {decode_q8_128, encode_q8_128};

}  // namespace quern::cpu
