// See terminal_text.hpp.
#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace quern {
namespace {

enum class Kind { character, bad_byte, unfinished };

struct Next {
  Kind kind;
  std::size_t size;  // of the text that it takes
  std::uint32_t code_point = 0;
};

/// The character at the front of a text that is not empty, by Unicode's table 3-7: no overlong form, no surrogate, nothing above U+10FFFF.
Next next_of(std::string_view text) noexcept {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {Kind::character, 1, first};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {Kind::bad_byte, 1, first};
  std::uint32_t code_point = first & (0xFFu >> (size + 1));
  for (std::size_t at = 1; at < size; ++at) {
    if (at == text.size()) return {Kind::unfinished, text.size()};
    const unsigned low = at > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = at > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(at) < low || byte(at) > high) return {Kind::bad_byte, 1, first};
    code_point = code_point << 6 | (byte(at) & 0x3F);
  }
  return {Kind::character, size, code_point};
}

bool is_shown(std::uint32_t c) noexcept {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;
  if (c < 0x61C) return true;
  return c != 0x61C && c != 0x200E && c != 0x200F && !(c >= 0x2028 && c <= 0x202E) && !(c >= 0x2066 && c <= 0x206F);
}

enum class Shape { line, page, json };

/// At most 6 bytes: \x1b or \u202e.
struct Escape {
  std::array<char, 6> text;
  std::size_t size;
  std::string_view view() const noexcept { return {text.data(), size}; }
};

Escape escape_of(const Next& next, Shape shape) noexcept {
  constexpr char digits[] = "0123456789abcdef";
  const auto digit = [&](unsigned shift) { return digits[next.code_point >> shift & 15]; };
  const bool wide = shape == Shape::json || (next.kind == Kind::character && next.code_point >= 0x80);
  if (wide) return {{'\\', 'u', digit(12), digit(8), digit(4), digit(0)}, 6};
  return {{'\\', 'x', digit(4), digit(0)}, 4};
}

/// Gives each character or escape to `put`, which returns false to stop.
template <typename Put>
void each(std::string_view text, Shape shape, const Put& put) noexcept(noexcept(put(text))) {
  while (!text.empty()) {
    Next next = next_of(text);
    if (next.kind == Kind::unfinished) next = {Kind::bad_byte, 1, static_cast<unsigned char>(text.front())};
    const bool kept = shape != Shape::line && (next.code_point == '\n' || next.code_point == '\t');
    const bool shown = next.kind == Kind::character && (kept || is_shown(next.code_point));
    if (shown ? !put(text.substr(0, next.size)) : !put(escape_of(next, shape).view())) return;
    text.remove_prefix(next.size);
  }
}

std::string escaped(std::string_view text, Shape shape) {
  std::string out;
  out.reserve(text.size());
  each(text, shape, [&](std::string_view piece) {
    out += piece;
    return true;
  });
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, Shape::line); }

std::string printable_page(std::string_view text) { return escaped(text, Shape::page); }

std::string printable_json(std::string_view json) { return escaped(json, Shape::json); }

void printable_into(std::string_view text, char* buffer, std::size_t size) noexcept {
  std::size_t at = 0;
  each(text, Shape::line, [&](std::string_view piece) noexcept {
    if (piece.size() > size - 1 - at) return false;
    std::memcpy(buffer + at, piece.data(), piece.size());
    at += piece.size();
    return true;
  });
  buffer[at] = '\0';
}

std::string_view cut_at_character(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text;
  // The cut is inside a character only if a lead byte stands at most 3 bytes in front of it.
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, most); ++back) {
    const Next next = next_of(text.substr(most - back, 4));
    if (next.kind == Kind::character && next.size > 1) return text.substr(0, next.size > back ? most - back : most);
  }
  return text.substr(0, most);
}

std::string_view whole_characters(std::string_view text) noexcept {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back)
    if (next_of(text.substr(text.size() - back)).kind == Kind::unfinished) return text.substr(0, text.size() - back);
  return text;
}

std::string printable_start(std::string_view text, std::size_t most) {
  std::string out = printable(cut_at_character(text, most));
  if (text.size() > most) out += "...";
  return out;
}

std::string in_quotes(std::string_view text, std::size_t most) { return "'" + printable_start(text, most) + "'"; }

std::string PrintablePieces::add(std::string_view piece) {
  waiting_ += piece;
  const std::string_view whole = whole_characters(waiting_);
  std::string out = printable_page(whole);
  waiting_.erase(0, whole.size());
  return out;
}

}  // namespace quern
