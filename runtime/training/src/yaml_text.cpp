#include "yaml_text.hpp"

#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace quern::training {
namespace {

/// Words that one reader or another takes for a truth or for nothing.
constexpr std::string_view reserved[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};

bool is_plain(std::string_view text) {
  if (text.empty() || text.size() > 200 || !(std::isalpha(static_cast<unsigned char>(text[0])) || text.starts_with("./") || text[0] == '/'))
    return false;
  const auto usual = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-./").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!std::ranges::all_of(text, usual)) return false;
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(reserved, lower) == std::end(reserved);
}

std::string number_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace

std::string yaml_text(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  JsonWriter writer(JsonWriter::Style::one_line);
  writer.value(text);
  return writer.take();
}

std::string yaml_value(const Json& value) {
  if (const bool* truth = value.boolean()) return *truth ? "true" : "false";
  if (const std::string* text = value.text()) return yaml_text(*text);
  if (const std::uint64_t* count = value.count()) return std::to_string(*count);
  if (const auto number = value.number()) return number_text(*number);
  std::string out;
  if (const Json::List* list = value.list()) {
    for (const Json& one : *list) out += (out.empty() ? "" : ", ") + yaml_value(one);
    return "[" + out + "]";
  }
  if (const Json::Members* members = value.members()) {
    for (const Json::Member& member : *members) out += (out.empty() ? "" : ", ") + yaml_text(member.name) + ": " + yaml_value(member.value);
    return "{" + out + "}";
  }
  return "null";
}

}  // namespace quern::training
