// Q3_X. Encoded: d = x* / -4, x* the element of largest magnitude, so that it is met exactly.
#include "codec.hpp"

namespace quern::cpu {
namespace {

void decode_q3_x(const Byte* b, int, float* out) noexcept {
  const float d = scale_at(b);
  const std::uint32_t high = word_at(b + 2);
  for (int i = 0; i < 32; ++i) {
    const int code = ((b[6 + i / 4] >> (2 * (i % 4))) & 3) | static_cast<int>(((high >> i) & 1u) << 2);
    out[i] = d * static_cast<float>(code - 4);
  }
}

void encode_q3_x(const float* x, Byte* b) noexcept {
  const float d = put_scale(b, extreme(x, 32) / -4.0f), inverse = inverse_of(d);
  std::uint32_t high = 0;
  std::fill_n(b + 6, 8, Byte{0});
  for (int i = 0; i < 32; ++i) {
    const int code = code_of(x[i], inverse, 4.0f, 0, 7);
    b[6 + i / 4] = static_cast<Byte>(b[6 + i / 4] | ((code & 3) << (2 * (i % 4))));
    high |= static_cast<std::uint32_t>(code >> 2) << i;
  }
  std::memcpy(b + 2, &high, 4);
}

}  // namespace

const BlockCodec q3_x_codec = {decode_q3_x, encode_q3_x};

}  // namespace quern::cpu
