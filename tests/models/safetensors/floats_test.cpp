#include "quern/models/floats.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace quern::test {
namespace {

using models::decode_floats;
using models::encode_floats;

std::uint16_t bits_of(quern_dtype dtype, float number) {
  std::uint16_t bits;
  const float numbers[] = {number};
  std::memcpy(&bits, encode_floats(dtype, numbers).data(), sizeof bits);
  return bits;
}

TEST(Floats, EveryNumberOf16BitsComesBack) {
  std::vector<std::byte> bytes(2 * 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) std::memcpy(bytes.data() + 2 * i, &i, 2);
  for (const quern_dtype dtype : {QUERN_F16, QUERN_BF16}) {
    const std::vector<float> numbers = decode_floats(dtype, bytes);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      if (std::isnan(numbers[i])) ASSERT_TRUE(std::isnan(decode_floats(dtype, encode_floats(dtype, {&numbers[i], 1}))[0]));
      else ASSERT_EQ(bits_of(dtype, numbers[i]), i);
    }
  }
}

TEST(Floats, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(bits_of(QUERN_BF16, 1 + 0x1p-8f), 0x3f80);  // between 1 and 1 + 2^-7: to the even one
  EXPECT_EQ(bits_of(QUERN_BF16, 1 + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(bits_of(QUERN_BF16, 1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(bits_of(QUERN_F16, 1 + 0x1p-11f), 0x3c00);
  EXPECT_EQ(bits_of(QUERN_F16, 1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(bits_of(QUERN_F16, 0x1p-25f), 0);  // half of the smallest one
}

TEST(Floats, ANumberBeyondTheTypeIsRefusedAndInfinityIsNot) {
  for (const auto& [dtype, number] : {std::pair(QUERN_F16, 65520.0f), std::pair(QUERN_BF16, std::numeric_limits<float>::max())}) {
    EXPECT_THROW(bits_of(dtype, number), Error);
    EXPECT_NO_THROW(bits_of(dtype, std::numeric_limits<float>::infinity()));
  }
  EXPECT_EQ(bits_of(QUERN_F16, 65519.0f), 0x7bff);
}

TEST(Floats, OtherTypesAndHalfNumbersAreRefused) {
  const std::byte three[3] = {};
  EXPECT_THROW(decode_floats(QUERN_F16, three), Error);
  EXPECT_THROW(decode_floats(QUERN_I32, {}), Error);
  EXPECT_THROW(encode_floats(QUERN_Q8_0, {}), Error);
}

}  // namespace
}  // namespace quern::test
