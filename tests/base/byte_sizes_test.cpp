#include "quern/base/byte_sizes.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(ByteSizes, TakesLettersForPowersOf1024) {
  EXPECT_EQ(parse_bytes("8G"), 8ull << 30);
  EXPECT_EQ(parse_bytes("1.5G"), 3ull << 29);
  EXPECT_EQ(parse_bytes("512M"), 512ull << 20);
  EXPECT_EQ(parse_bytes("512m"), 512ull << 20);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("1T"), 1ull << 40);
  EXPECT_EQ(parse_bytes("1.5GiB"), 3ull << 29);
  EXPECT_EQ(parse_bytes("2GB"), 2ull << 30);
  EXPECT_EQ(parse_bytes("1048576"), 1048576u);
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993u);  // 2^53 + 1, which no double is
  EXPECT_EQ(parse_bytes("10B"), 10u);
  EXPECT_EQ(parse_bytes("0"), 0u);
}

TEST(ByteSizes, RefusesOtherText) {
  for (const char* wrong : {"", "G", "-1G", "8Q", "8GG", "8G ", " 8G", "1e3", "0x10", "inf", "nan", "9000000T", "8Gi"})
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
}

TEST(ByteSizes, AreSaidInTheLargestUnitThatKeepsThemAtLeastOne) {
  EXPECT_EQ(byte_words(0), "0 bytes");
  EXPECT_EQ(byte_words(1), "1 byte");
  EXPECT_EQ(byte_words(1023), "1023 bytes");
  EXPECT_EQ(byte_words(1536), "1.5 KiB");
  EXPECT_EQ(byte_words((1u << 20) - 1), "1.0 MiB");  // not 1024.0 KiB
  EXPECT_EQ(byte_words(397808640), "379.4 MiB");
  EXPECT_EQ(byte_words(27ull << 30), "27.0 GiB");
  EXPECT_EQ(byte_words(UINT64_MAX), "16.0 EiB");
}

TEST(ByteSizes, ACountHasItsPlural) {
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(2, "token"), "2 tokens");
}

TEST(ByteSizes, TwoThatDifferLookDifferent) {
  EXPECT_EQ(byte_words_apart(3ull << 30, 2ull << 30), std::pair(std::string("3.0 GiB"), std::string("2.0 GiB")));
  EXPECT_EQ(byte_words_apart((1ull << 30) + (2ull << 20), 1ull << 30), std::pair(std::string("1.002 GiB"), std::string("1.000 GiB")));
  EXPECT_EQ(byte_words_apart((1ull << 30) + 1, 1ull << 30), std::pair(std::string("1073741825 bytes"), std::string("1073741824 bytes")));
}

}  // namespace
}  // namespace quern
