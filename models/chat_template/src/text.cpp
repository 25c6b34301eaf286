// Walking, searching and cutting UTF-8 text. Case is in casing.cpp.
#include "text.hpp"

#include "runtime.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace quern::jinja {

namespace {

std::size_t sequence_length(unsigned char lead) noexcept {
  if (lead < 0x80) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

bool is_continuation(unsigned char byte) noexcept { return (byte & 0xc0) == 0x80; }

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    if (lead < 0xc2 || lead > 0xf4) return at;
    const std::size_t length = sequence_length(lead);
    if (text.size() - at < length) return at;
    for (std::size_t i = 1; i < length; ++i) {
      if (!is_continuation(byte(i))) return at;
    }
    if (lead == 0xe0 && byte(1) < 0xa0) return at;  // overlong
    if (lead == 0xed && byte(1) > 0x9f) return at;  // surrogate
    if (lead == 0xf0 && byte(1) < 0x90) return at;  // overlong
    if (lead == 0xf4 && byte(1) > 0x8f) return at;  // above U+10FFFF
    at += length;
  }
  return std::string_view::npos;
}

char32_t next_code_point(std::string_view text, std::size_t& offset) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = sequence_length(lead);
  if (length > text.size() - offset) {
    offset = text.size();
    return 0xfffd;
  }
  char32_t value = lead;
  if (length == 2) value = lead & 0x1fu;
  if (length == 3) value = lead & 0x0fu;
  if (length == 4) value = lead & 0x07u;
  for (std::size_t i = 1; i < length; ++i) value = (value << 6) | (byte(i) & 0x3fu);
  offset += length;
  return value;
}

std::size_t previous_offset(std::string_view text, std::size_t offset) noexcept {
  do { --offset; } while (is_continuation(static_cast<unsigned char>(text[offset])));
  return offset;
}

void append_code_point(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3f));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

std::size_t count_code_points(std::string_view text) noexcept {
  std::size_t count = 0;
  for (const char byte : text) count += !is_continuation(static_cast<unsigned char>(byte));
  return count;
}

std::size_t offset_of_code_point(std::string_view text, std::size_t index) noexcept {
  std::size_t offset = 0;
  while (index > 0 && offset < text.size()) {
    offset += sequence_length(static_cast<unsigned char>(text[offset]));
    --index;
  }
  return offset;
}

std::string_view cut_text(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text;
  while (most > 0 && is_continuation(static_cast<unsigned char>(text[most]))) --most;
  return text.substr(0, most);
}

namespace {

constexpr std::size_t longest_shown = 80;

// Writes repr() of `text` through put(std::string_view), one character at a time.
template <typename Put>
void write_quoted(std::string_view character, char32_t c, char mark, Put&& put) {
  if (c == static_cast<char32_t>(mark) || c == '\\') {
    put("\\");
    put(character);
  } else if (c == '\n' || c == '\r' || c == '\t') {
    put(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
  } else if (is_printable(c)) {
    put(character);
  } else {
    std::array<char, 16> escape{};
    const char* form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    std::snprintf(escape.data(), escape.size(), form, static_cast<unsigned>(c));
    put(escape.data());
  }
}

// repr() chooses the quotes that need no escape.
char quotation_mark(std::string_view text) noexcept {
  const bool has_single = text.find('\'') != std::string_view::npos;
  return has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
}

}  // namespace

std::string shown(std::string_view name) {
  const std::string_view start = cut_text(name, longest_shown);
  return std::string(start) + (start.size() < name.size() ? "..." : "");
}

std::string quote(std::string_view text) {
  const std::string_view start = cut_text(text, longest_shown);
  const char mark = quotation_mark(start);
  std::string out(1, mark);
  for (std::size_t at = 0; at < start.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(start, at);
    write_quoted(start.substr(begin, at - begin), c, mark, [&](std::string_view part) { out += part; });
  }
  out += mark;
  return start.size() < text.size() ? out + "..." : out;
}

void append_quoted(TextBuilder& out, std::string_view text) {
  out.runtime().step_text(text.size());
  const char mark = quotation_mark(text);
  const std::string_view quotes(&mark, 1);
  out.append(quotes);
  std::size_t copied = 0;  // runs of plain characters are appended whole
  walk(out.runtime(), text, [&](std::size_t start, std::size_t end, char32_t c) {
    if (c != static_cast<char32_t>(mark) && c != '\\' && is_printable(c)) return true;
    out.append(text.substr(copied, start - copied));
    write_quoted(text.substr(start, end - start), c, mark, [&](std::string_view part) { out.append(part); });
    copied = end;
    return true;
  });
  out.append(text.substr(copied));
  out.append(quotes);
}

namespace {

constexpr std::size_t window = 256 * 1024;  // bytes that a search handles before it counts them

}  // namespace

std::size_t find_text(Budget& budget, std::string_view text, std::string_view needle, std::size_t from) {
  constexpr std::size_t npos = std::string_view::npos;
  if (from > text.size()) return npos;
  if (needle.empty()) return from;
  // memmem, which is linear, and not string_view::find, which may take size * size steps on a hostile pair; in windows,
  // so that the clock is looked at. Of a long needle it looks for the start, and each place is then compared and counted.
  const std::string_view head = needle.substr(0, 256);
  while (text.size() - from >= needle.size()) {
    const std::size_t last_start = std::min(from + window, text.size() - needle.size() + 1);  // starts below this
    const std::size_t end = last_start + head.size() - 1;
    const void* found = memmem(text.data() + from, end - from, head.data(), head.size());
    const std::size_t next = found == nullptr ? last_start : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    budget.step_text(next - from + 1);
    if (found != nullptr) {
      budget.step_text(needle.size() - head.size());
      if (text.compare(next, needle.size(), needle) == 0) return next;
    }
    from = next + (found != nullptr ? 1 : 0);
  }
  return npos;
}

std::size_t find_text_from_right(Budget& budget, std::string_view text, std::string_view needle) {
  constexpr std::size_t npos = std::string_view::npos;
  if (needle.size() > text.size()) return npos;
  if (needle.empty()) return text.size();
  std::size_t end = text.size() - needle.size() + 1;  // starts are below this
  while (end > 0) {
    const std::size_t block = std::min(end, window);
    const void* found = memrchr(text.data() + (end - block), needle.front(), block);
    const std::size_t at = found == nullptr ? end - block : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    budget.step_text(end - at);
    if (found != nullptr) {
      budget.step_text(needle.size());
      if (text.compare(at, needle.size(), needle) == 0) return at;
    }
    end = at;
  }
  return npos;
}

std::string_view strip_left(Budget& budget, std::string_view text) {
  std::size_t first = text.size();
  walk(budget, text, [&](std::size_t start, std::size_t, char32_t c) {
    if (is_space(c)) return true;
    first = start;
    return false;
  });
  return text.substr(first);
}

namespace {

// Cuts characters off the end while `goes` accepts them.
template <typename Goes>
std::string_view cut_from_right(Budget& budget, std::string_view text, Goes&& goes) {
  std::size_t counted = text.size();
  while (!text.empty()) {
    const std::size_t start = previous_offset(text, text.size());
    if (!goes(text.substr(start))) break;
    text = text.substr(0, start);
    if (counted - text.size() < block_of_text) continue;
    budget.step_characters(counted - text.size());
    counted = text.size();
  }
  budget.step_characters(counted - text.size());
  return text;
}

}  // namespace

std::string_view strip_right(Budget& budget, std::string_view text) {
  return cut_from_right(budget, text, [](std::string_view character) {
    std::size_t at = 0;
    return is_space(next_code_point(character, at));
  });
}

std::string_view strip_characters(Budget& budget, std::string_view text, std::string_view characters, bool left, bool right) {
  // Both are valid UTF-8, so a code point occurs in `characters` exactly if its bytes do.
  const auto listed = [&](std::string_view character) {
    budget.step_characters(characters.size());
    return characters.find(character) != std::string_view::npos;
  };
  if (left) {
    std::size_t first = text.size();
    walk(budget, text, [&](std::size_t start, std::size_t end, char32_t) {
      if (listed(text.substr(start, end - start))) return true;
      first = start;
      return false;
    });
    text = text.substr(first);
  }
  return right ? cut_from_right(budget, text, listed) : text;
}

}  // namespace quern::jinja
