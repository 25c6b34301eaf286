// Text of a hostile file, made fit for an error message.
#include "quoted.hpp"

namespace quern::tokenizer {

std::string quoted(std::string_view text) {
  constexpr std::size_t shown = 48;
  constexpr char hex[] = "0123456789ABCDEF";
  std::string out = "'";
  for (const char c : text.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    }
  }
  out += text.size() > shown ? "'..." : "'";
  return out;
}

}  // namespace quern::tokenizer
