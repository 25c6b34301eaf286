// Sums of records, by the examples of RFC 3720.
#include "event_file.hpp"

#include <gtest/gtest.h>

#include <string>

namespace quern::cli {
namespace {

TEST(Crc32c, IsThatOfTheExamplesOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) rising += byte;
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

}  // namespace
}  // namespace quern::cli
