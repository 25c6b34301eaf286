#include "quern/graph/folder.hpp"
#include "quern/graph/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace quern {
namespace {

namespace fs = std::filesystem;

TEST(Json, EntriesOfOneListAreEditedWhenTheyHaveBeenRead) {
  static constexpr Json::EditedList pairs = {"outer", "list", [](Json& entry) { entry = Json(std::uint64_t{entry.list()->size()}); }};
  const auto json =
      Json::parse(R"({"list": [[1]], "outer": {"other": [[1]], "list": ["a", [], [[5], [6, 7]], 3], "last": [[2]]}, "none": [[1]]})",
                  Json::most_values, nullptr, &pairs);
  ASSERT_TRUE(json.has_value());
  const Json::List& edited = *json->find("outer")->find("list")->list();
  ASSERT_EQ(edited.size(), 4u);
  EXPECT_EQ(*edited[0].text(), "a");
  EXPECT_EQ(*edited[1].count(), 0u);
  EXPECT_EQ(*edited[2].count(), 2u);  // after its own entries, which are not edited
  EXPECT_EQ(*edited[3].count(), 3u);
  for (const Json* other : {json->find("list"), json->find("none"), json->find("outer")->find("other"), json->find("outer")->find("last")})
    EXPECT_NE(other->list()->at(0).list(), nullptr);
  EXPECT_FALSE(Json::parse(R"({"outer": {"list": [[1]})", Json::most_values, nullptr, &pairs).has_value());
  EXPECT_TRUE(Json::parse("[[[1]]]", Json::most_values, nullptr, &pairs).has_value());
  EXPECT_TRUE(Json::parse(R"({"outer": [{"list": [[1]]}]})", Json::most_values, nullptr, &pairs).has_value());
}

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
