// Writes JSON as it goes, with two spaces a level or on one line. Not a tree of values: that of nlohmann_json allocates in its destructor,
// which ends the process where memory has run out.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>

namespace quern {

class JsonWriter {
 public:
  enum class Style { indented, one_line };
  explicit JsonWriter(Style style = Style::indented) : style_(style) {}

  void begin_object() { begin('{'); }
  void end_object() { end('}'); }
  void begin_array() { begin('['); }
  void end_array() { end(']'); }
  /// The name of the member whose value comes next.
  void key(std::string_view name);

  /// Bytes that are not UTF-8 become U+FFFD.
  void value(std::string_view text);
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(const char* text) { value(std::string_view(text)); }
  void value(bool truth);
  void value(double number);  // null where it is not finite
  void value(std::nullptr_t);
  template <std::integral T>
  void value(T number) {
    separate();
    out_ += std::to_string(number);
  }
  template <typename T>
  void value(const std::optional<T>& maybe) {
    if (maybe) value(*maybe);
    else value(nullptr);
  }

  // Release 14 misreads the requirement.
  // clang-format off
  /// A list.
  template <std::ranges::input_range T>
    requires(!std::convertible_to<const T&, std::string_view>)
  void value(const T& list) {
    begin_array();
    for (const auto& one : list) value(one);
    end_array();
  }
  // clang-format on
  template <typename T>
  void member(std::string_view name, const T& of) {
    key(name);
    value(of);
  }

  /// Bytes of what is written so far.
  std::size_t size() const noexcept { return out_.size(); }
  std::string take() { return std::move(out_); }

 private:
  void begin(char bracket);
  void end(char bracket);
  void separate();
  void quote(std::string_view text);
  void line();

  std::string out_;
  Style style_;
  int depth_ = 0;
  bool first_ = true;  // of its object or array
  bool after_key_ = false;
};

}  // namespace quern
