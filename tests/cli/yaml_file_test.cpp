// YAML of settings files as JSON, with positions.
#include "yaml_file.hpp"

#include "failure.hpp"
#include "yaml_scalar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace quern::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string json(const std::string& yaml) { return parse_yaml(yaml, "cfg.yaml").json; }

std::string refusal(const std::string& yaml) {
  try {
    parse_yaml(yaml, "cfg.yaml");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_usage);
    return failure.what();
  }
  return "";
}

TEST(Yaml, MapsAndListsBecomeJson) {
  EXPECT_EQ(json("a: 1\nb: [x, {c: true}]\nd:\n  - e: 'it''s'\n    f: \"t\\tb\"\n"),
            R"({"a":1,"b":["x",{"c":true}],"d":[{"e":"it's","f":"t\tb"}]})");
  EXPECT_EQ(json("text: |\n  {{ a }}\n  b\n"), R"({"text":"{{ a }}\nb\n"})");
  EXPECT_EQ(json("---\na: 1\n...\n"), R"({"a":1})");
  EXPECT_EQ(json("\xef\xbb\xbf"
                 "a: 1\r\nb: 2\r\n"),
            R"({"a":1,"b":2})");
  EXPECT_EQ(json("{}"), "{}");
  EXPECT_EQ(json("a: |+\n  b\n\n"), R"({"a":"b\n\n"})");
  EXPECT_EQ(json("1: x\ntrue: y\n"), R"({"1":"x","true":"y"})");
}

TEST(Yaml, QuotesAndTagsMakeText) {
  EXPECT_EQ(json("a: '1'\nb: \"true\"\nc: !!str 5\nd: !!int 5\n"), R"({"a":"1","b":"true","c":"5","d":5})");
}

TEST(Yaml, EmptyValuesAreNull) { EXPECT_EQ(json("a:\nb: ~\nc: null\nd: ''\n"), R"({"a":null,"b":null,"c":null,"d":""})"); }

TEST(YamlWord, HasTheTypesOfYaml12) {
  bool out_of_range = false;
  const auto word = [&](std::string_view text) { return yaml_word(text, out_of_range).value_or("text"); };
  EXPECT_EQ(word("2e-4"), "2e-04");
  EXPECT_EQ(word("1E5"), "1e+05");
  EXPECT_EQ(word("1.0e-4"), "1e-04");
  EXPECT_EQ(word("+3"), "3");
  EXPECT_EQ(word("-0"), "0");
  EXPECT_EQ(word("-7"), "-7");
  EXPECT_EQ(word("007"), "7");
  EXPECT_EQ(word(".5"), "0.5");
  EXPECT_EQ(word("5."), "5");
  EXPECT_EQ(word("0x10"), "16");
  EXPECT_EQ(word("0o17"), "15");
  EXPECT_EQ(word("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(word("True"), "true");
  EXPECT_EQ(word("FALSE"), "false");
  EXPECT_EQ(word("NULL"), "null");
  for (const char* text : {"yes", "no", "on", "1_000", "1e", "e5", ".", "-", "+", "1.2.3", "0x", "0xg", "2e-4x", "tRue", "1 2", "--1"})
    EXPECT_EQ(word(text), "text") << text;
  EXPECT_FALSE(out_of_range);
  for (const char* text : {".inf", "-.inf", ".nan", "1e999", "1e-999"}) {
    EXPECT_EQ(word(text), "text") << text;
    EXPECT_TRUE(out_of_range) << text;
  }
}

TEST(Yaml, PositionsAreThoseOfKeysAndItems) {
  const YamlFile file = parse_yaml("# head\na: 1\nlora:\n  r: 8\ndatasets:\n  - path: x\n    type: y\n  - z\n", "cfg.yaml");
  EXPECT_EQ(file.positions.at("a"), (YamlPosition{2, 1}));
  EXPECT_EQ(file.positions.at("lora"), (YamlPosition{3, 1}));
  EXPECT_EQ(file.positions.at("lora.r"), (YamlPosition{4, 3}));
  EXPECT_EQ(file.positions.at("datasets[0]"), (YamlPosition{6, 5}));
  EXPECT_EQ(file.positions.at("datasets[0].type"), (YamlPosition{7, 5}));
  EXPECT_EQ(file.positions.at("datasets[1]"), (YamlPosition{8, 5}));
  EXPECT_EQ(nlohmann::json::parse(places_json(file, "cfg.yaml")).at("lora.r"), "cfg.yaml:4");
}

TEST(Yaml, AValueLeftOutAtTheEndHasItsPlaceInTheText) {
  EXPECT_EQ(parse_yaml("a:\n  - &x", "t.yaml").positions.at("a[0]").line, 2);
  EXPECT_EQ(parse_yaml("a: &x\r\n  -", "t.yaml").positions.at("a[0]").line, 2);
}

TEST(Yaml, AliasesAreWrittenOut) {
  const YamlFile file = parse_yaml("a: &x {b: [1]}\nc: *x\n", "cfg.yaml");
  EXPECT_EQ(file.json, R"({"a":{"b":[1]},"c":{"b":[1]}})");
  EXPECT_EQ(file.positions.at("c.b"), (YamlPosition{1, 8}));
}

TEST(YamlRefuses, AKeyGivenTwiceWithBothLines) {
  EXPECT_EQ(refusal("a: 1\nb: 2\na: 3\n"), "cfg.yaml:3: the key 'a' is given twice, first in line 1");
  EXPECT_THAT(refusal("x:\n  - {a: 1, 'a': 2}\n"), StartsWith("cfg.yaml:2: the key 'a' is given twice"));
  EXPECT_EQ(refusal("x: {a: 1}\ny: {a: 1}\n"), "");
}

TEST(YamlRefuses, WhatIsNoMapOfTexts) {
  EXPECT_EQ(refusal(""), "cfg.yaml: the file has no settings");
  EXPECT_EQ(refusal("# only a comment\n"), "cfg.yaml: the file has no settings");
  EXPECT_THAT(refusal("- a\n"), HasSubstr("cfg.yaml:1: a settings file is a map"));
  EXPECT_THAT(refusal("just words\n"), HasSubstr("is a map"));
  EXPECT_THAT(refusal("? [a]\n: b\n"), HasSubstr("a key is a list or a map"));
  EXPECT_THAT(refusal("~: b\n"), HasSubstr("a key is empty"));
  EXPECT_THAT(refusal("a: &k b\n*k : c\n"), HasSubstr("an alias stands for a key"));
  EXPECT_THAT(refusal("a: &k {b: 1}\nc:\n  <<: *k\n"), HasSubstr("cfg.yaml:3: merge keys are not taken"));
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_THAT(refusal("a: !mine 1\n"), HasSubstr("cfg.yaml:1: the tag '!mine' is not taken"));
  EXPECT_THAT(refusal("a: !!python/object:os.system []\n"), HasSubstr("is not taken"));
  EXPECT_THAT(refusal("a: .nan\n"), HasSubstr("cfg.yaml:1: '.nan' is no number"));
  EXPECT_THAT(refusal("a: \"\xff\"\n"), HasSubstr("is not UTF-8"));
  EXPECT_THAT(refusal("\xff: a\n"), HasSubstr("is not UTF-8"));
  EXPECT_THAT(refusal(std::string(101, 'k') + ": a\n"), HasSubstr("a key has 101 bytes; at most 100"));
}

TEST(YamlRefuses, TextThatIsNotYamlWithItsLine) {
  EXPECT_THAT(refusal("a: 1\nb: [1, 2\n"), StartsWith("cfg.yaml:"));
  EXPECT_THAT(refusal("a: b: c\n"), StartsWith("cfg.yaml:1: not YAML: "));
  EXPECT_THAT(refusal("a: 1\n\tb: 2\n"), HasSubstr("not YAML"));
  EXPECT_EQ(refusal("a: \"open\nb: 2\n"), "cfg.yaml: not YAML: a quote is still open at the end of the file");
  EXPECT_EQ(refusal("a: 'open"), "cfg.yaml: not YAML: a quote is still open at the end of the file");
  EXPECT_THAT(refusal("a: *nowhere\n"), HasSubstr("not YAML"));
}

TEST(YamlRefuses, ControlCharactersInsteadOfEndingThere) {
  for (const char byte : {'\0', '\x04', '\x1b', '\x7f'})
    EXPECT_THAT(refusal("a: 1\n# " + std::string(1, byte) + "\nb: 2\n"), HasSubstr("cfg.yaml:2: byte "));
}

TEST(YamlRefuses, WhatPassesALimit) {
  EXPECT_THAT(refusal("a: " + std::string(300'000, 'x')), HasSubstr("a settings file has at most 262144"));
  EXPECT_EQ(refusal("a: " + std::string(15, '[') + std::string(15, ']')), "");
  EXPECT_THAT(refusal("a: " + std::string(16, '[') + std::string(16, ']')), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(refusal("a: " + std::string(100'000, '[')), HasSubstr("cfg.yaml:1: "));
  EXPECT_THAT(refusal(std::string(100'000, '-')), HasSubstr("cfg.yaml"));
  std::string values = "a: [1";
  for (int i = 0; i < 10'000; ++i) values += ",1";
  EXPECT_THAT(refusal(values + "]\n"), HasSubstr("more than 10000 values"));
}

TEST(YamlRefuses, BombsOfAliases) {
  std::string many = "a: &x 1\nb: [";
  for (int i = 0; i < 100; ++i) many += "*x,";
  EXPECT_EQ(refusal(many + "]\n"), "");
  EXPECT_THAT(refusal(many + "*x]\n"), HasSubstr("cfg.yaml:2: more than 100 aliases"));
  std::string bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) bomb += "," + before;
    bomb += "]\n";
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("more than 10000 values"));
  std::string wide = "a: &x " + std::string(100'000, 'x') + "\nb: [";
  for (int i = 0; i < 20; ++i) wide += "*x,";
  EXPECT_THAT(refusal(wide + "]\n"), HasSubstr("more than 1048576 bytes"));
  std::string deep = "a: &x [[[[[[[[[1]]]]]]]]]\nb: [[[[[[[[*x]]]]]]]]\n";
  EXPECT_THAT(refusal(deep), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(refusal("a: &x [*x]\n"), HasSubstr("an alias stands within its own anchor"));
}

TEST(YamlRefuses, AFileThatIsNotThere) {
  try {
    read_yaml("/nonexistent/cfg.yaml");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), exit_usage);
    EXPECT_THAT(failure.what(), HasSubstr("/nonexistent/cfg.yaml"));
  }
}

}  // namespace
}  // namespace quern::cli
