// See escape.hpp.
#include "report/escape.hpp"

#include <cstdint>

namespace quern::conformance {
namespace {

/// Bytes of the UTF-8 character that begins at `i`; 0 if none does.
std::size_t character_bytes(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(i);
  const std::size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || i + size > text.size()) return 0;
  std::uint32_t code = size == 1 ? first : first & (0xffu >> (size + 1));
  for (std::size_t k = 1; k < size; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i + k) & 0x3fu);
  }
  const bool shortest = size < 3 || code >= (size == 3 ? 0x800u : 0x10000u);
  const bool character = code < 0xd800 || (code > 0xdfff && code < 0xfffe) || (code > 0xffff && code <= 0x10ffff);
  return shortest && character ? size : 0;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = character_bytes(text, i);
    const char c = text[i];
    if (size == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) out += "?";
    else if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (c == '\'') out += "&#39;";
    else out += text.substr(i, size);
    i += size == 0 ? 1 : size;
  }
  return out;
}

}  // namespace quern::conformance
