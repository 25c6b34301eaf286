// Memory limits and the fallback policy as they are written.
#include "runtime.hpp"

#include <gtest/gtest.h>

namespace quern::runtime {
namespace {

TEST(MemoryLimits, UnitsArePowersOf1024) {
  const auto limits = parse_memory_limits("cuda:0=8G,cpu=512M,x=3k,y=17", "--memory");
  EXPECT_EQ(limits.at("cuda:0"), 8ull << 30);
  EXPECT_EQ(limits.at("cpu"), 512ull << 20);
  EXPECT_EQ(limits.at("x"), 3ull << 10);
  EXPECT_EQ(limits.at("y"), 17u);
}

TEST(MemoryLimits, ABadLimitIsRefusedNamingItsOrigin) {
  for (const char* bad : {"8G", "=8G", "cpu=", "cpu=G", "cpu=0", "cpu=8X", "cpu=99999999999999999999", "cpu=17179869184G", "cpu=-1"}) {
    try {
      parse_memory_limits(bad, "--memory");
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), QUERN_INVALID_ARGUMENT);
      EXPECT_NE(std::string(error.what()).find("--memory"), std::string::npos) << error.what();
    }
  }
}

TEST(Fallback, AnUnknownPolicyNamesTheKnownOnes) {
  EXPECT_EQ(parse_fallback("strict", "QUERN_FALLBACK"), Fallback::strict);
  EXPECT_THROW(parse_fallback("maybe", "QUERN_FALLBACK"), Error);
}

}  // namespace
}  // namespace quern::runtime
