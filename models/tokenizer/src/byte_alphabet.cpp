// The alphabet in which byte-level BPE vocabularies spell bytes.
#include "byte_alphabet.hpp"

#include "unicode.hpp"

#include <array>
#include <cstdint>

namespace quern::tokenizer {
namespace {

constexpr bool stands_for_itself(unsigned byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  struct Spelling {
    char text[2] = {};
    std::uint8_t length = 0;
  };
  std::array<Spelling, 256> spelling{};
  std::array<std::int16_t, 0x144> byte_of{};  // by code; -1: not in the alphabet
};

constexpr Alphabet alphabet = [] {
  Alphabet a{};
  for (auto& byte : a.byte_of) byte = -1;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code = stands_for_itself(byte) ? byte : next++;
    a.byte_of[code] = static_cast<std::int16_t>(byte);
    if (code < 0x80) {
      a.spelling[byte] = {{static_cast<char>(code), 0}, 1};
    } else {
      a.spelling[byte] = {{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))}, 2};
    }
  }
  return a;
}();

}  // namespace

std::string_view spell_byte(unsigned char byte) noexcept { return {alphabet.spelling[byte].text, alphabet.spelling[byte].length}; }

bool append_spelled_bytes(std::string_view text, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_char(text, at);
    const int byte = c.valid && c.code < alphabet.byte_of.size() ? alphabet.byte_of[c.code] : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
    at += c.length;
  }
  return true;
}

}  // namespace quern::tokenizer
