// Text as Python sees it: UTF-8 in storage, code points in every answer.
//
// Every string inside a render is valid UTF-8 (checked once, where it comes in), so the walkers here do not
// check again. Case and categories are Unicode's, from utf8proc; whitespace is what str.isspace() accepts.
#pragma once

#include "budget.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jinja {

class TextBuilder;

/// The offset of the first byte that is not part of valid UTF-8, or npos. Surrogates and overlong forms are
/// not valid.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

/// The code point that starts at `offset`, which is then moved behind it. `offset` must be below the size. Of a
/// character that is cut off by the end of the text: U+FFFD, and the end.
char32_t next_code_point(std::string_view text, std::size_t& offset) noexcept;

/// The offset of the code point that ends at `offset` (which is above 0).
std::size_t previous_offset(std::string_view text, std::size_t offset) noexcept;

void append_code_point(std::string& out, char32_t code_point);
std::size_t count_code_points(std::string_view text) noexcept;

/// The byte offset of the code point with this index, or the size if there are fewer.
std::size_t offset_of_code_point(std::string_view text, std::size_t index) noexcept;

/// The character that starts at `offset`.
inline std::string_view character_at(std::string_view text, std::size_t offset) noexcept {
  std::size_t end = offset;
  next_code_point(text, end);
  return text.substr(offset, end - offset);
}

/// The start of a text that ends at a character and has at most this many bytes. Whatever a message quotes goes through
/// here.
std::string_view cut_text(std::string_view text, std::size_t most) noexcept;
/// What a message shows of a name: its start, and "..." where that is not all.
std::string shown(std::string_view name);
/// repr() of a str as a message shows it: of its start, with "..." where that is not all.
std::string quote(std::string_view text);

/// Calls body(start, end, code point) for each code point until that gives false.
template <typename Body>
void walk(Budget& budget, std::string_view text, Body&& body) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t block = at;
    const std::size_t block_end = std::min(at + block_of_text, text.size());
    bool goes_on = true;
    while (goes_on && at < block_end) {
      const std::size_t start = at;
      const char32_t c = next_code_point(text, at);
      goes_on = body(start, at, c);
    }
    budget.step_characters(at - block);
    if (!goes_on) return;
  }
}

/// The first occurrence of `needle` at or after `from`, or npos.
std::size_t find_text(Budget& budget, std::string_view text, std::string_view needle, std::size_t from = 0);
/// The last occurrence, or npos.
std::size_t find_text_from_right(Budget& budget, std::string_view text, std::string_view needle);

bool is_space(char32_t code_point) noexcept;
bool is_alphabetic(char32_t code_point) noexcept;
bool is_digit(char32_t code_point) noexcept;    ///< str.isdigit(): decimal digits, superscripts, circled digits
bool is_numeric(char32_t code_point) noexcept;  ///< categories Nd, Nl, No
bool is_lower(char32_t code_point) noexcept;
bool is_upper(char32_t code_point) noexcept;
bool is_title(char32_t code_point) noexcept;
bool is_printable(char32_t code_point) noexcept;
bool is_identifier_start(char32_t code_point) noexcept;
bool is_identifier_part(char32_t code_point) noexcept;

void to_upper(TextBuilder& out, std::string_view text);
void to_lower(TextBuilder& out, std::string_view text);
/// str.title(): a capital after every character that has no case
void to_title(TextBuilder& out, std::string_view text);
void capitalize(TextBuilder& out, std::string_view text);
void swap_case(TextBuilder& out, std::string_view text);

std::string_view strip_left(Budget& budget, std::string_view text);
std::string_view strip_right(Budget& budget, std::string_view text);
/// Strips the code points of `characters` from one or both ends.
std::string_view strip_characters(Budget& budget, std::string_view text, std::string_view characters, bool left, bool right);

/// str.splitlines(): body(line) for each; every line boundary that Python knows, the last empty line left out.
template <typename Body>
void for_each_line(Budget& budget, std::string_view text, bool keep_ends, Body&& body) {
  std::size_t line = 0;
  walk(budget, text, [&](std::size_t start, std::size_t end, char32_t c) {
    const bool boundary = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!boundary || start < line) return true;  // below `line`: the second half of \r\n
    const std::size_t after = c == '\r' && end < text.size() && text[end] == '\n' ? end + 1 : end;
    body(text.substr(line, (keep_ends ? after : start) - line));
    line = after;
    return true;
  });
  if (line < text.size()) body(text.substr(line));
}

/// Appends repr() of a str: single quotes unless only single quotes occur inside, and escapes for what is not
/// printable.
void append_quoted(TextBuilder& out, std::string_view text);

}  // namespace quern::jinja
