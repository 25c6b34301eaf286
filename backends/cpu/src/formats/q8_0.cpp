// Q8_0. Encoded: d = max|x| / 127.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q8_0(const Byte* b, int, float* out) noexcept {
  const float d = scale_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(b[2 + i]));
}

void encode_q8_0(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, std::fabs(extreme(x, 32)) / 127.0f), inverse = inverse_of(d);
  for (int i = 0; i < 32; ++i) b[2 + i] = static_cast<Byte>(static_cast<std::int8_t>(code_of(x[i], inverse, 0.0f, -127, 127)));
}

}  // namespace

const BlockCodec q8_0_codec = {decode_q8_0, encode_q8_0};

}  // namespace quern::cpu
