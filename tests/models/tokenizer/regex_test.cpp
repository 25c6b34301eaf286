// Expressions from files: matches equal to Oniguruma's in the PyPI package tokenizers (tests/data/tokenizer/regex.json, by
// scripts/make_regex_goldens.py), refusals by name, and an end to all backtracking.
#include "regex.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace quern::test {
namespace {

using tokenizer::Regex;
using tokenizer::RegexBudget;
using tokenizer::RegexMatches;

/// The sizes of matches and of what lies between them.
std::vector<std::size_t> piece_sizes(const Regex& regex, std::string_view text) {
  RegexBudget budget(text.size());
  RegexMatches matches(regex, text, budget);
  std::vector<std::size_t> sizes;
  std::size_t at = 0;
  const auto add = [&](std::size_t end) {
    if (end > at) sizes.push_back(end - at);
    at = end;
  };
  while (const auto match = matches.next()) {
    add(match->begin);
    add(match->end);
  }
  add(text.size());
  return sizes;
}

TEST(Regex, FindsWhatOnigurumaFinds) {
  const char* other = std::getenv("QUERN_REGEXES");  // a larger file of the same script
  const auto golden = nlohmann::json::parse(std::ifstream(other ? other : QUERN_SOURCE_DIR "/tests/data/tokenizer/regex.json"));
  ASSERT_GE(golden.size(), 25u);
  for (const auto& entry : golden) {
    const Regex regex(entry["expression"].get<std::string>());
    ASSERT_EQ(entry["texts"].size(), entry["pieces"].size());
    for (std::size_t i = 0; i < entry["texts"].size(); ++i)
      EXPECT_EQ(piece_sizes(regex, entry["texts"][i].get<std::string>()), entry["pieces"][i].get<std::vector<std::size_t>>())
          << entry["name"] << " in " << entry["texts"][i].dump();
  }
}

TEST(Regex, TakesAByteThatIsNoUtf8AsOneCharacter) {
  EXPECT_EQ(piece_sizes(Regex("."), "a\xFF\x80\xC3"), (std::vector<std::size_t>{1, 1, 1, 1}));
  EXPECT_EQ(piece_sizes(Regex("a.{2}"), "a\xE2\x82z"), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(piece_sizes(Regex("[^b]+b"),
                        "\x80\x80\x80z\xE2\x82\xAC"
                        "b\x80"),
            (std::vector<std::size_t>{8, 1}));
}

class RefusedRegex : public testing::TestWithParam<std::tuple<const char*, quern_status, const char*>> {};

TEST_P(RefusedRegex, IsRefusedByName) {
  const auto& [expression, code, text] = GetParam();
  try {
    Regex regex(expression);
    FAIL() << expression;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Constructs, RefusedRegex,
    testing::Values(
        std::tuple(R"((a)\1)", QUERN_UNSUPPORTED, "back-reference"), std::tuple(R"(\k<n>)", QUERN_UNSUPPORTED, "'\\k'"),
        std::tuple(R"(\X)", QUERN_UNSUPPORTED, "'\\X'"), std::tuple("(?<n>a)", QUERN_UNSUPPORTED, "named group"),
        std::tuple("(?~a)", QUERN_UNSUPPORTED, "'(?~'"), std::tuple("(?x) a", QUERN_UNSUPPORTED, "'(?x'"),
        std::tuple("(?<=a+)b", QUERN_UNSUPPORTED, "varying length"), std::tuple(R"(\p{Klingon})", QUERN_UNSUPPORTED, "'Klingon'"),
        std::tuple("[[:punct:]]", QUERN_UNSUPPORTED, "POSIX"), std::tuple("(?i:ss)", QUERN_UNSUPPORTED, "letters without case"),
        std::tuple(R"((?i:[\p{Lu}]))", QUERN_UNSUPPORTED, "a set without case"),
        std::tuple("a{1001}", QUERN_UNSUPPORTED, "1000 repetitions"),
        std::tuple("(?:(?:a{1000}b){1000}){1000}", QUERN_UNSUPPORTED, "steps"), std::tuple("(a", QUERN_BAD_MODEL, "without its ')'"),
        std::tuple("a)", QUERN_BAD_MODEL, "too many"), std::tuple("[a", QUERN_BAD_MODEL, "ends too early"),
        std::tuple("[b-a]", QUERN_BAD_MODEL, "exchanged"), std::tuple("*a", QUERN_BAD_MODEL, "repeats nothing"),
        std::tuple("\\", QUERN_BAD_MODEL, "ends too early"), std::tuple("a\xFF", QUERN_BAD_MODEL, "UTF-8")));

TEST(Regex, DeepNestingAndLongPatternsAreRefused) {
  EXPECT_THROW(Regex(std::string(5000, '(')), Error);
  EXPECT_THROW(Regex(std::string(5000, '[')), Error);
  EXPECT_THROW(Regex(std::string(1 << 20, 'a')), Error);
}

// The steps are counted, so that the end does not depend on the machine.
TEST(Regex, EndsAllBacktracking) {
  const std::string text = std::string(100'000, 'a') + "!";
  for (const char* expression : {"(a+)+$b", "(a|aa)+b", "(?:a*)*b", "a*a*a*a*b", "(?=(a+)+b)", "(?:a|a)*b", ".*.*.*=", "(?:.*?b)*?c.*d"}) {
    const Regex regex(expression);
    try {
      piece_sizes(regex, text);
      FAIL() << expression;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), QUERN_UNSUPPORTED);
      EXPECT_NE(std::string(error.what()).find("takes more steps than a text of 100001 bytes"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace quern::test
