// F8_128: an f32 and numbers of eight bits. Encoded: the largest magnitude becomes 448, the largest of them.
#include "whole_scales.hpp"

namespace quern::cpu {
namespace {

void decode_f8_128(const Byte* b, int part, float* out) noexcept {
  const float d = whole_scale_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * e4m3_to_float(b[4 + 32 * part + i]);
}

void encode_f8_128(const float* x, Byte* b) noexcept {
  const float inverse = inverse_of(put_whole_scale(b, std::fabs(extreme(x, 128)) / 448.0f));
  for (int i = 0; i < 128; ++i) b[4 + i] = float_to_e4m3(x[i] * inverse);
}

}  // namespace

const BlockCodec f8_128_codec = {decode_f8_128, encode_f8_128};

}  // namespace quern::cpu
