#include "quern/graph/json_writer.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace quern {
namespace {

template <typename T>
std::string written(const T& value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

TEST(JsonWriter, NestsWithTwoSpacesALevel) {
  JsonWriter json;
  json.begin_object();
  json.member("a", 1);
  json.key("list");
  json.begin_array();
  json.value("x");
  json.begin_object();
  json.end_object();
  json.end_array();
  json.key("none");
  json.begin_array();
  json.end_array();
  json.member("b", true);
  json.end_object();
  EXPECT_EQ(json.take(), "{\n  \"a\": 1,\n  \"list\": [\n    \"x\",\n    {}\n  ],\n  \"none\": [],\n  \"b\": true\n}");
}

TEST(JsonWriter, WritesNumbersSoThatTheyReadBackTheSame) {
  EXPECT_EQ(written(UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(written(INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written(2.0), "2.0");
  EXPECT_EQ(written(1e300), "1e+300");
  EXPECT_EQ(written(std::nan("")), "null");
  EXPECT_EQ(written(INFINITY), "null");
  EXPECT_EQ(written(std::optional<int>()), "null");
  EXPECT_EQ(written(std::optional<int>(3)), "3");
  EXPECT_EQ(written(false), "false");
}

TEST(JsonWriter, EscapesWhatJsonAsksForAndReplacesWhatIsNoUtf8) {
  EXPECT_EQ(written("a\"b\\c\n\t\x01\x7f"), "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\"");
  EXPECT_EQ(written("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"), "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82\"");
  const std::string replaced = "\xef\xbf\xbd";
  EXPECT_EQ(written("\xff"), "\"" + replaced + "\"");
  EXPECT_EQ(written("\xc3"), "\"" + replaced + "\"");                                // cut off
  EXPECT_EQ(written("\xc0\xaf"), "\"" + replaced + replaced + "\"");                 // longer than needed
  EXPECT_EQ(written("\xed\xa0\x80"), "\"" + replaced + replaced + replaced + "\"");  // a surrogate
  EXPECT_EQ(written(std::string("a\0b", 3)), "\"a\\u0000b\"");
}

}  // namespace
}  // namespace quern
