#include "text.hpp"

namespace quern::gguf {

std::string shown(std::string_view bytes) {
  constexpr std::size_t longest = 80;
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : bytes.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    }
  }
  if (bytes.size() > longest) out += "...";
  return out + "'";
}

}  // namespace quern::gguf
