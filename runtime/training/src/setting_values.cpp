#include "setting_values.hpp"

#include "quern/base/terminal_text.hpp"

#include <charconv>
#include <cmath>

namespace quern::training {
namespace {

constexpr double no_most = std::numeric_limits<double>::max();
constexpr double exact_whole = 9007199254740992.0;  // 2^53

std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string range_text(const Bounds& bounds) {
  std::string text = concat(bounds.above ? " above " : " from ", shortest(bounds.least));
  if (bounds.most == no_most) return bounds.above ? text : concat(text, " up");
  return concat(text, bounds.below ? " and below " : bounds.above ? " and up to " : " to ", shortest(bounds.most));
}

bool within(double number, const Bounds& bounds) {
  return (bounds.above ? number > bounds.least : number >= bounds.least) && (bounds.below ? number < bounds.most : number <= bounds.most);
}

bool fits(const Json& value, Takes takes, const Bounds& bounds) {
  switch (takes) {
    case Takes::boolean: return value.boolean() != nullptr;
    case Takes::count: {
      const auto number = whole(value);
      return number && within(static_cast<double>(*number), bounds);
    }
    case Takes::number: {
      const auto number = value.number();
      return number && std::isfinite(*number) && within(*number, bounds);
    }
    case Takes::text: return value.text() != nullptr && !value.text()->empty();
    case Takes::words:
      if (const Json::List* list = value.list()) {
        for (const Json& one : *list)
          if (one.text() == nullptr || one.text()->empty()) return false;
        return true;
      }
      return value.text() != nullptr && !value.text()->empty();
    case Takes::numbers:
      if (const Json::List* list = value.list()) {
        for (const Json& one : *list)
          if (!fits(one, Takes::count, bounds)) return false;
        return true;
      }
      return fits(value, Takes::count, bounds);
    case Takes::map: return value.is_object();
    case Takes::choice:
    case Takes::anything: return true;  // the reader of the key looks itself
  }
  return false;
}

}  // namespace

void refuse(const Entry& entry, const std::string& text) {
  throw SettingsError(entry.path, entry.place.empty() ? text : concat(entry.place, ": ", text));
}

std::string described(const Json& value) {
  if (value.is_null()) return "empty";
  if (const bool* truth = value.boolean()) return *truth ? "true" : "false";
  if (const std::string* text = value.text()) return concat("the text ", in_quotes(*text));
  if (const auto number = value.integer()) return std::to_string(*number);
  if (const auto number = value.number()) return shortest(*number);
  return value.list() != nullptr ? "a list" : "a group of keys";
}

std::string takes_text(Takes takes, const Bounds& bounds, std::string_view choices) {
  switch (takes) {
    case Takes::boolean: return "true or false";
    case Takes::count: return concat("a whole number", range_text(bounds));
    case Takes::number: return concat("a number", range_text(bounds));
    case Takes::text: return "a text";
    case Takes::words: return "a list of names";
    case Takes::numbers: return concat("a list of whole numbers", range_text(bounds));
    case Takes::map: return "a group of keys";
    case Takes::choice: return concat("one of ", choices);
    case Takes::anything: return std::string(choices);
  }
  return {};
}

void check_value(const Entry& entry, Takes takes, const Bounds& bounds, std::string_view choices) {
  if (!fits(entry.value, takes, bounds))
    refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes ", takes_text(takes, bounds, choices)));
}

std::optional<std::uint64_t> whole(const Json& value) {
  if (const std::uint64_t* count = value.count()) return *count;
  const auto number = value.number();
  if (!number || *number < 0 || *number > exact_whole || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

std::vector<std::string> words(const Json& value) {
  std::vector<std::string> found;
  if (const Json::List* list = value.list())
    for (const Json& one : *list) found.push_back(one.text() != nullptr ? *one.text() : std::string());
  std::string_view left = value.text() != nullptr ? std::string_view(*value.text()) : std::string_view();
  while (!left.empty()) {
    const std::size_t comma = std::min(left.find(','), left.size());
    std::string_view word = left.substr(0, comma);
    left.remove_prefix(std::min(comma + 1, left.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) found.emplace_back(word);
  }
  return found;
}

}  // namespace quern::training
