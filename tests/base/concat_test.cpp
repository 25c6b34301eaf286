#include "quern/base/concat.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace quern {
namespace {

/// What a stream writes, which concat() has to equal.
template <typename... Parts>
std::string streamed(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

enum Unscoped { three = 3 };

TEST(Concat, WritesWhatAStreamWrites) {
  const std::string text = "text";
  const std::string with_zero("a\0b", 3);
  EXPECT_EQ(concat("a", text, std::string_view("view"), 'c', with_zero), streamed("a", text, std::string_view("view"), 'c', with_zero));
  EXPECT_EQ(concat(0, -1, 42u, std::int8_t{65}, std::uint8_t{66}, short{-7}, true, false, three),
            streamed(0, -1, 42u, std::int8_t{65}, std::uint8_t{66}, short{-7}, true, false, three));
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min(), ' ', std::numeric_limits<std::uint64_t>::max()),
            streamed(std::numeric_limits<std::int64_t>::min(), ' ', std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(concat(0.1, ' ', 1e30, ' ', 2.5f), streamed(0.1, ' ', 1e30, ' ', 2.5f));
  EXPECT_EQ(concat(), "");
}

TEST(Concat, ANullStringEndsTheText) {
  const char* null = nullptr;
  EXPECT_EQ(concat("a", null, "b"), "a");
}

}  // namespace
}  // namespace quern
