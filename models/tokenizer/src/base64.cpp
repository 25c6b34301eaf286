// Base64.
#include "quern/models/base64.hpp"

#include "quern/graph/error.hpp"

#include <array>
#include <cstdint>

namespace quern {
namespace {

constexpr std::uint8_t no_digit = 255;
constexpr std::array<std::uint8_t, 256> digit_of = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_digit);
  std::uint8_t value = 0;
  for (const char digit : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
    table[static_cast<unsigned char>(digit)] = value++;
  return table;
}();

}  // namespace

std::string decode_base64(std::string_view field, std::string_view text) {
  const std::size_t end = text.find_last_not_of('=') + 1;
  if (text.size() % 4 != 0 || text.size() - end > 2)
    throw Error(QUERN_BAD_MODEL, concat("'", field, "' has base64 of ", text.size(), " characters, which is not whole"));
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const std::uint32_t digit = digit_of[static_cast<unsigned char>(text[i])];
    if (digit == no_digit) throw Error(QUERN_BAD_MODEL, concat("'", field, "' has base64 with another character at place ", i));
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

}  // namespace quern
