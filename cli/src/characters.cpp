// Widths and clusters are Unicode's, as utf8proc has them.
#include "characters.hpp"

#include "quern/base/terminal_text.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace quern::cli {
namespace {

/// The code point at `at` and its bytes; -1 and one byte where there is no UTF-8.
utf8proc_int32_t code_point(std::string_view text, std::size_t at, std::size_t& bytes) {
  utf8proc_int32_t point = -1;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const utf8proc_ssize_t length = utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size() - at, 4)), &point);
  bytes = length > 0 ? static_cast<std::size_t>(length) : 1;
  return length > 0 ? point : -1;
}

bool is_shown(utf8proc_int32_t point) {
  if (point < 0) return false;
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_CF:  // joiners and tags belong to emoji; the marks of direction reorder the line
      return point == 0x200D || point == 0x00AD || (point >= 0xE0020 && point <= 0xE007F);
    default: return true;
  }
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  Character found;
  const utf8proc_int32_t first = code_point(text, at, found.bytes);
  if (!is_shown(first)) {
    found.shown = false;
    return found;
  }
  found.columns = utf8proc_charwidth(first);
  utf8proc_int32_t before = first, state = 0;
  while (at + found.bytes < text.size()) {
    std::size_t bytes = 0;
    const utf8proc_int32_t next = code_point(text, at + found.bytes, bytes);
    if (!is_shown(next) || utf8proc_grapheme_break_stateful(before, next, &state)) break;
    found.columns = std::max(found.columns, utf8proc_charwidth(next));
    found.bytes += bytes;
    before = next;
  }
  return found;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
  const std::string shown = printable(text);
  std::size_t width = 0, end_of_cut = 0;
  for (std::size_t at = 0; at < shown.size();) {
    const Character one = character_at(shown, at);
    width += static_cast<std::size_t>(one.columns);
    if (width > columns) return shown.substr(0, end_of_cut) + "\u2026";
    at += one.bytes;
    if (width < columns) end_of_cut = at;
  }
  return shown;
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    std::size_t width = 0;
    for (std::size_t at = 0; at < end; at += character_at(text, at).bytes)
      width += static_cast<std::size_t>(character_at(text, at).columns);
    if (column > 0 && column + width > columns) {
      while (out.ends_with(' ')) out.pop_back();
      out += '\n';
      column = 0;
    }
    out += text.substr(0, std::min(end + 1, text.size()));
    column = end < text.size() && text[end] == '\n' ? 0 : column + width + 1;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::size_t first_bad_byte(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    std::size_t bytes = 0;
    if (code_point(text, at, bytes) < 0) break;
    at += bytes;
  }
  return at;
}

std::size_t character_before(std::string_view text, std::size_t at) {
  if (at == 0) return 0;
  const std::size_t newline = at < 2 ? std::string_view::npos : text.rfind('\n', at - 2);
  std::size_t from = newline == std::string_view::npos ? 0 : newline + 1;
  for (std::size_t next = from; next < at; next += character_at(text, next).bytes) from = next;
  return from;
}

}  // namespace quern::cli
