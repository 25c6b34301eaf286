// Values of settings: where one was written, what a key takes, and the sentences for what it does not take.
#pragma once

#include "quern/graph/json.hpp"
#include "quern/training/settings.hpp"

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::training {

/// A value as it was given.
struct Entry {
  std::string path;   // as written: "lora.r"
  std::string place;  // "cfg.yaml:12", or the override; may be empty
  Json value;
  bool times_rank = false;  // of lora_alpha: it was given as mlx-lm's scale, alpha / r
};

/// Throws SettingsError: the place, then `text`.
[[noreturn]] void refuse(const Entry& entry, const std::string& text);

/// The value for a message: `the text 'eight'`, `true`, `a list`.
std::string described(const Json& value);

enum class Takes { boolean, count, number, text, choice, words, numbers, map, anything };

struct Bounds {
  double least = 0, most = std::numeric_limits<double>::max();
  bool above = false, below = false;  // the bound itself is outside
};

/// A name of a value of an enumeration; the first of each value is the one that is written.
template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

/// "a whole number from 1 to 65536".
std::string takes_text(Takes takes, const Bounds& bounds, std::string_view choices);

/// Throws SettingsError, with what was found and what the key takes, where the value has another type or is out of range.
void check_value(const Entry& entry, Takes takes, const Bounds& bounds, std::string_view choices);

/// A whole number, also where it was written as 1e3. Nothing for others.
std::optional<std::uint64_t> whole(const Json& value);

/// The texts of a list, or of one text with commas; blanks at their ends are taken away.
std::vector<std::string> words(const Json& value);

template <typename T, std::size_t n>
T chosen(const Entry& entry, const Choice<T> (&choices)[n]) {
  for (const Choice<T>& one : choices)
    if (const std::string* text = entry.value.text(); text != nullptr && *text == one.name) return one.value;
  std::string names;
  for (const Choice<T>& one : choices) names += (names.empty() ? "" : ", ") + std::string(one.name);
  refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes one of ", names));
}

template <typename T, std::size_t n>
Json name_of(T value, const Choice<T> (&choices)[n]) {
  for (const Choice<T>& one : choices)
    if (one.value == value) return Json(std::string(one.name));
  return Json();
}

}  // namespace quern::training
