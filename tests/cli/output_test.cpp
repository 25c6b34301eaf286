#include "output.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace quern::cli {
namespace {

TEST(JsonLine, IsOneLineWhateverTheText) { EXPECT_EQ(json_line({{"text", "a\nb\"c"}}), "{\"text\":\"a\\nb\\\"c\"}\n"); }

TEST(JsonLine, ReplacesBytesThatAreNotUtf8) { EXPECT_EQ(json_line({{"text", "a\xff"}}), "{\"text\":\"a\xef\xbf\xbd\"}\n"); }

TEST(JsonLine, WritesNullForWhatIsNotFinite) { EXPECT_EQ(json_line({{"x", std::numeric_limits<double>::infinity()}}), "{\"x\":null}\n"); }

TEST(Printable, ShowsControlCharactersAndKeepsUtf8) { EXPECT_EQ(printable("a\x1b[31m\n\xc3\xa9"), "a\\x1b[31m\\x0a\xc3\xa9"); }

}  // namespace
}  // namespace quern::cli
