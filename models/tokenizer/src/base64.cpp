// Base64.
#include "quern/models/base64.hpp"

#include "quern/graph/error.hpp"

#include <cstdint>

namespace quern {

std::string decode_base64(std::string_view field, std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t end = text.find_last_not_of('=') + 1;
  if (text.size() % 4 != 0 || text.size() - end > 2)
    throw Error(QUERN_BAD_MODEL, concat("'", field, "' has base64 of ", text.size(), " characters, which is not whole"));
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const std::size_t digit = digits.find(text[i]);
    if (digit == digits.npos) throw Error(QUERN_BAD_MODEL, concat("'", field, "' has base64 with another character at place ", i));
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

}  // namespace quern
