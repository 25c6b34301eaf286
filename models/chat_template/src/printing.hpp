// Values as text: str(), repr() and JSON.
#pragma once

#include "runtime.hpp"

#include <string>
#include <string_view>

namespace quern::jinja {

/// Appends str(value). A generator and other things whose text would be an address are refused.
void print(Runtime& runtime, const Value& value, TextBuilder& out);
/// str(value) as a value; a str is itself.
Value to_text(Runtime& runtime, const Value& value);
/// Appends repr(value).
void print_repr(Runtime& runtime, const Value& value, TextBuilder& out);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Value> indent;  ///< one level of it, a str
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};
/// json.dumps(value).
Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

/// Appends the text with & < > ' " as HTML writes them.
void escape_html(TextBuilder& out, const Text& text);

}  // namespace quern::jinja
