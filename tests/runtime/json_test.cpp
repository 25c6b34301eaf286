#include "same_json.hpp"

#include "quern/graph/folder.hpp"
#include "quern/graph/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace quern {
namespace {

namespace fs = std::filesystem;

/// What is taken of a text, and the tree without it.
struct Taking {
  std::vector<std::string> names;  // "-" in a list
  std::vector<Json> entries;
  std::string why;
  std::optional<Json> rest;

  explicit Taking(std::string_view text, std::size_t values = Json::most_values, std::string_view outer = "outer") {
    const auto take = [this](const std::string* name, const Json& entry) {
      names.push_back(name == nullptr ? "-" : *name);
      entries.push_back(entry);
    };
    const Json::Taken taken[] = {{outer, "list", take}};
    rest = Json::parse(text, values, &why, taken);
  }
};

TEST(Json, EntriesOfOneListAreTakenWhenTheyHaveBeenRead) {
  const Taking of_list(R"({"list": [[1]], "outer": {"other": [[1]], "list": ["a", [], [[5], [6, 7]], {"b": 8}, [9], 3]}, "none": [[1]]})");
  ASSERT_TRUE(of_list.rest.has_value());
  EXPECT_EQ(of_list.names, std::vector<std::string>(6, "-"));
  ASSERT_EQ(of_list.entries.size(), 6u);
  EXPECT_EQ(*of_list.entries[0].text(), "a");
  EXPECT_TRUE(of_list.entries[1].list()->empty());
  EXPECT_EQ(*of_list.entries[2].list()->at(1).list()->at(1).count(), 7u);
  EXPECT_EQ(*of_list.entries[3].find("b")->count(), 8u);
  ASSERT_EQ(of_list.entries[4].list()->size(), 1u);  // nothing of the list before
  EXPECT_EQ(*of_list.entries[4].list()->at(0).count(), 9u);
  EXPECT_EQ(*of_list.entries[5].count(), 3u);
  EXPECT_TRUE(of_list.rest->find("outer")->find("list")->list()->empty());
  for (const Json* other : {of_list.rest->find("list"), of_list.rest->find("none"), of_list.rest->find("outer")->find("other")})
    EXPECT_NE(other->list()->at(0).list(), nullptr);
}

TEST(Json, EntriesOfAnObjectAreTakenWithTheirNames) {
  const Taking of_object(R"({"outer": {"list": {"a": 1, "": [2], "a": {}}, "x": 5}})");
  ASSERT_TRUE(of_object.rest.has_value());
  EXPECT_EQ(of_object.names, (std::vector<std::string>{"a", "", "a"}));
  EXPECT_EQ(*of_object.entries[1].list()->at(0).count(), 2u);
  EXPECT_TRUE(of_object.rest->find("outer")->find("list")->members()->empty());
  EXPECT_EQ(*of_object.rest->find("outer")->find("x")->count(), 5u);
  const Taking of_root(R"({"list": [1, [2]], "outer": {"list": [3]}})", Json::most_values, "");
  EXPECT_EQ(of_root.entries.size(), 2u);
  EXPECT_EQ(of_root.rest->find("outer")->find("list")->list()->size(), 1u);
}

TEST(Json, NothingIsTakenElsewhere) {
  for (const char* text :
       {"[[[1]]]", R"({"outer": [{"list": [[1]]}]})", R"([{"outer": {"list": [1]}}])", R"({"outer": {"list": 7, "more": [1]}})"}) {
    const Taking none(text);
    EXPECT_TRUE(none.rest.has_value() && none.entries.empty()) << text;
  }
}

TEST(Json, EntriesThatAreTakenAreNotCountedBehindTheirOwn) {
  EXPECT_TRUE(Taking(R"({"outer": {"list": [[1, 2], [3, 4], [5, 6]]}})", 6).rest.has_value());
  EXPECT_FALSE(Taking(R"({"outer": {"list": [[1, 2], [3, 4, 5], [6]]}})", 6).rest.has_value());
  EXPECT_FALSE(Taking(R"({"outer": {"list": [[1, 2], [3, 4], [5, 6]]}, "a": 1, "b": 2, "c": 3, "d": 4})", 6).rest.has_value());
}

TEST(Json, AListThatIsTakenComesOnce) {
  const Taking twice(R"({"outer": {"list": [1], "list": [2]}})");
  EXPECT_FALSE(twice.rest.has_value());
  EXPECT_EQ(twice.why, "JSON with the member 'list' twice");
  EXPECT_FALSE(Taking(R"({"outer": {"list": [[1]})").rest.has_value());
}

TEST(Json, ReadsWhatAnotherReaderReads) {
  const std::string_view texts[] = {"\xEF\xBB\xBF[1]",
                                    "\xEF\xBB[1]",
                                    " [ 1 ,\t2\r\n] ",
                                    "[]x",
                                    "[1 2]",
                                    "{\"a\" 1}",
                                    "{\"a\":1,}",
                                    "{,}",
                                    "[,]",
                                    "{1:2}",
                                    "{\"a\":}",
                                    "]",
                                    ",",
                                    ":",
                                    "true",
                                    "tru",
                                    "truex",
                                    "nulL",
                                    "falsee",
                                    "-",
                                    "-0",
                                    "0",
                                    "00",
                                    "01",
                                    "-01",
                                    "1.",
                                    ".5",
                                    "1e",
                                    "1e+",
                                    "+1",
                                    "1E5",
                                    "1.5e-3",
                                    "-0.0",
                                    "1e308",
                                    "1e309",
                                    "-1e309",
                                    "1e-400",
                                    "-1e-400",
                                    "0.0000001e-330",
                                    "4.9e-324",
                                    "2e-324",
                                    "1e99999999999999999999",
                                    "1e-99999999999999999999",
                                    "0e99999999999999999999",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "-9223372036854775808",
                                    "-9223372036854775809",
                                    "123456789012345678901234567890.5",
                                    "0.1",
                                    "1.7976931348623157e308",
                                    "2.2250738585072011e-308",
                                    "\"\"",
                                    "\"a",
                                    "\"\t\"",
                                    "\"\x7f\"",
                                    "\"\\\"",
                                    "\"\\x\"",
                                    "\"\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
                                    "\"\\u00e9\\u20ac\\ud83d\\ude00\"",
                                    "\"\\u0000\"",
                                    "\"\\ud800\"",
                                    "\"\\ude00\"",
                                    "\"\\ud800\\ud800\"",
                                    "\"\\ud800x\"",
                                    "\"\\u00g0\"",
                                    "\"\\u00",
                                    "\"\\uD83D\\uDE00\"",
                                    "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
                                    "\"\xC0\x80\"",
                                    "\"\xED\xA0\x80\"",
                                    "\"\xF4\x90\x80\x80\"",
                                    "\"\xE2\x82\"",
                                    "\"\x80\"",
                                    "{\"a\":{\"b\":[[],{},\"\",null,true,false]},\"\":0}",
                                    "[[[[]]]]",
                                    "{\"a\":1,\"a\":2}"};
  for (const std::string_view text : texts) {
    const auto theirs = nlohmann::json::parse(text, nullptr, false);
    const auto ours = Json::parse(text);
    ASSERT_EQ(ours.has_value(), !theirs.is_discarded()) << text;
    if (ours) EXPECT_TRUE(test::is_same(*ours, theirs)) << text;
  }
}

// What lies behind a zero is no part of a C string, and would be read by nobody.
TEST(Json, AZeroIsNoEnd) { EXPECT_FALSE(Json::parse(std::string_view("1\0", 2)).has_value()); }

TEST(Json, GivesWhatTheTextHasAndNothingForAnotherType) {
  const auto json = Json::parse(R"({"text": "a\u00e9", "yes": true, "count": 18446744073709551615, "less": -3, "half": 0.5,
                                   "none": null, "list": [1, [2], {"a": 3}], "empty": {}})");
  ASSERT_TRUE(json.has_value());
  ASSERT_TRUE(json->is_object());
  EXPECT_EQ(*json->find("text")->text(), "a\u00e9");
  EXPECT_TRUE(*json->find("yes")->boolean());
  EXPECT_EQ(*json->find("count")->count(), UINT64_MAX);
  EXPECT_FALSE(json->find("count")->integer().has_value());
  EXPECT_EQ(json->find("less")->integer(), -3);
  EXPECT_EQ(json->find("less")->count(), nullptr);
  EXPECT_EQ(json->find("less")->number(), -3.0);
  EXPECT_EQ(json->find("half")->number(), 0.5);
  EXPECT_TRUE(json->find("none")->is_null());
  const Json::List& list = *json->find("list")->list();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(*list[0].count(), 1u);
  EXPECT_EQ(*list[1].list()->at(0).count(), 2u);
  EXPECT_EQ(*list[2].find("a")->count(), 3u);
  EXPECT_TRUE(json->find("empty")->is_object());
  EXPECT_EQ(json->find("other"), nullptr);
  EXPECT_EQ(json->find("text")->boolean(), nullptr);
  EXPECT_EQ(json->find("text")->find("x"), nullptr);
  EXPECT_EQ(list[0].text(), nullptr);
}

TEST(Json, TakesNoMoreValuesThanItMay) {
  const std::string list = "[1,[],{\"a\":null}]";  // five values
  EXPECT_TRUE(Json::parse(list, 5).has_value());
  EXPECT_FALSE(Json::parse(list, 4).has_value());
}

TEST(Json, NamesTheByteThatIsWrongAndWhetherItIsText) {
  std::string why;
  EXPECT_FALSE(Json::parse("[\"a\xff\"]", 10, &why));
  EXPECT_EQ(why, "not UTF-8 at byte 3");
  EXPECT_FALSE(Json::parse("[\"a\"", 10, &why));
  EXPECT_THAT(why, testing::StartsWith("not JSON at byte "));
}

TEST(Json, TakesTheLastOfMembersWithOneName) { EXPECT_EQ(*Json::parse(R"({"a": 1, "a": 2})")->find("a")->count(), 2u); }

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\"}", "nul", "\"a", "1 2", "{\"a\": 1}}", "[1e999]", "\"\xff\""})
    EXPECT_FALSE(Json::parse(text).has_value()) << text;
}

TEST(Json, NestsToItsLimitAndNoDeeper) {
  const auto nested = [](int levels) {
    return Json::parse(std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']'));
  };
  EXPECT_TRUE(nested(Json::deepest).has_value());
  EXPECT_FALSE(nested(Json::deepest + 1).has_value());
  EXPECT_FALSE(nested(1000000).has_value());
}

TEST(Folder, ListsAndRemovesWithoutFollowingLinks) {
  const fs::path root = fs::path(testing::TempDir()) / "quern_folder_test";
  fs::remove_all(root);
  fs::create_directories(root / "tree/b/c");
  fs::create_directories(root / "kept");
  for (const char* file : {"tree/z", "tree/b/y", "tree/b/c/x", "kept/stays"}) std::ofstream(root / file) << file;
  fs::create_symlink("../kept", root / "tree/link");
  fs::create_symlink("nowhere", root / "tree/broken");
  EXPECT_EQ(names_in((root / "tree").string()), (std::vector<std::string>{"b", "broken", "link", "z"}));
  EXPECT_EQ(names_in((root / "tree").string(), 2).size(), 2u);
  EXPECT_TRUE(names_in((root / "none").string()).empty());
  EXPECT_EQ(paths_below((root / "tree").string()), (std::vector<std::string>{"b/c/x", "b/y", "broken", "link", "z"}));
  EXPECT_TRUE(remove_tree((root / "tree").string()));
  EXPECT_FALSE(fs::exists(root / "tree"));
  EXPECT_TRUE(fs::exists(root / "kept/stays"));
  EXPECT_FALSE(remove_tree((root / "tree").string()));
  fs::remove_all(root);
}

}  // namespace
}  // namespace quern
