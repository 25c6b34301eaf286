// Walking, searching and cutting UTF-8 text. Case is in casing.cpp.
#include "text.hpp"

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
  char32_t value = lead;
  if (length == 2) value = lead & 0x1fu;
  if (length == 3) value = lead & 0x0fu;
  if (length == 4) value = lead & 0x07u;
  for (std::size_t i = 1; i < length; ++i) value = (value << 6) | (byte(i) & 0x3fu);
  offset += length;
  return value;
}

std::size_t previous_offset(std::string_view text, std::size_t offset) noexcept {
  do {
    --offset;
  } while (is_continuation(static_cast<unsigned char>(text[offset])));
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

std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from) noexcept {
  // Not string_view::find, which may take size * size steps on a hostile pair.
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string_view strip_left(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_space(next_code_point(text, next))) break;
    at = next;
  }
  return text.substr(at);
}

std::string_view strip_right(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t start = previous_offset(text, text.size());
    std::size_t at = start;
    if (!is_space(next_code_point(text, at))) break;
    text = text.substr(0, start);
  }
  return text;
}

std::string_view strip_characters(std::string_view text, std::string_view characters, bool left, bool right) {
  // Both are valid UTF-8, so a code point occurs in `characters` exactly if its bytes do.
  const auto listed = [&](std::size_t start, std::size_t end) {
    return characters.find(text.substr(start, end - start)) != std::string_view::npos;
  };
  while (left && !text.empty()) {
    std::size_t end = 0;
    next_code_point(text, end);
    if (!listed(0, end)) break;
    text = text.substr(end);
  }
  while (right && !text.empty()) {
    const std::size_t start = previous_offset(text, text.size());
    if (!listed(start, text.size())) break;
    text = text.substr(0, start);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = at;
    const char32_t c = next_code_point(text, at);
    const bool boundary =
        (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!boundary) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string quote(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char mark = has_single && !has_double ? '"' : '\'';
  std::string out(1, mark);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c == static_cast<char32_t>(mark) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(start, at - start);
    } else {
      std::array<char, 16> escape{};
      const char* form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape.data(), escape.size(), form, static_cast<unsigned>(c));
      out += escape.data();
    }
  }
  out += mark;
  return out;
}

}  // namespace quern::jinja
