// libFuzzer target: any bytes as JSON, judged by nlohmann_json. Both read it or neither does, and the trees are the same. What is taken
// while a text is read is what the tree has there. Texts with a zero, which ends a text for nlohmann_json, are read alone.
#include "../same_json.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using quern::Json;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Deeper texts, and those of more values, are refused by ours alone.
bool is_within_limits(std::string_view text, const std::string& why) {
  return text.find('\0') == text.npos && why.find("nested deeper") == why.npos && why.find("more than") == why.npos;
}

std::size_t entries_of(const Json& value) {
  return value.list() != nullptr ? value.list()->size() : value.members() != nullptr ? value.members()->size() : 0;
}

/// Everything of the root is taken in turn, as the tree has it; of members with one name the tree shows the last alone.
void check_taking(const Json& tree, std::string_view text) {
  if (tree.members() == nullptr) return;
  for (const Json::Member& member : *tree.members()) {
    std::size_t entries = 0, names = 0;
    const Json::Taken taken[] = {{"", member.name, [&](const std::string* name, const Json&) {
                                    ++entries;
                                    names += name != nullptr;
                                  }}};
    std::string why;
    const auto rest = Json::parse(text, Json::most_values, &why, taken);
    if (std::ranges::count(*tree.members(), member.name, &Json::Member::name) > 1) continue;
    require(names == (tree.find(member.name)->is_object() ? entries : 0));
    require(rest && entries == entries_of(*tree.find(member.name)) && entries_of(*rest->find(member.name)) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string why;
  const auto ours = Json::parse(text, Json::most_values, &why);
  if (ours && size < 4096) check_taking(*ours, text);
  if (Json::parse(text, 4)) require(ours.has_value());
  if (!is_within_limits(text, why)) return 0;
  const auto theirs = nlohmann::json::parse(text, nullptr, false);
  require(ours.has_value() == !theirs.is_discarded());
  if (ours) require(quern::test::is_same(Json(*ours), theirs));
  return 0;
}
