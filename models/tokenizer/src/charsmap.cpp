// The table of normalisations of SentencePiece.
#include "charsmap.hpp"

#include "quern/graph/error.hpp"

#include <cstring>

namespace quern::tokenizer {

// A unit of the trie (Darts-clone): bits 0-7 the byte that leads here, 8 whether a value follows, 10-30 the offset to the children, in 256s
// where bit 9 is set. A unit that is a value has bit 31.
Charsmap::Charsmap(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() < sizeof size)
    throw Error(QUERN_BAD_MODEL, concat("'precompiled_charsmap' has ", bytes.size(), " bytes; it starts with a size of 4"));
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - sizeof size)
    throw Error(QUERN_BAD_MODEL, concat("'precompiled_charsmap' has ", bytes.size(), " bytes; its trie would have ", size));
  trie_.resize(size / 4);
  std::memcpy(trie_.data(), bytes.data() + sizeof size, size);
  replacements_ = bytes.substr(sizeof size + size);
}

Charsmap Charsmap::from_base64(std::string_view text) { return Charsmap(decode_base64("precompiled_charsmap", text)); }

std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); };
  std::size_t node = offset(trie_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    if (node >= trie_.size()) return std::nullopt;
    const std::uint32_t unit = trie_[node];
    if ((unit & (1u << 31 | 0xFFu)) != byte) return std::nullopt;
    node ^= offset(unit);
    if (node >= trie_.size()) return std::nullopt;
    if ((unit >> 8 & 1) == 0) continue;
    const std::size_t start = trie_[node] & ~(1u << 31);
    if (start >= replacements_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(start);
    return rest.substr(0, std::min(rest.find('\0'), rest.size()));
  }
  return std::nullopt;
}

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

}  // namespace quern::tokenizer
