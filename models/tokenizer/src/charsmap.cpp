// The table of normalisations of SentencePiece.
#include "charsmap.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/base64.hpp"

#include <algorithm>
#include <cstring>

namespace quern::tokenizer {
namespace {

// What stands for one character of NFKC has at most 33 bytes, and what it stands for 16. A table with longer ones could make a text grow
// and its reading slow without bound.
constexpr std::size_t most_entry_bytes = 256;

}  // namespace

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
  for (std::size_t at = 0; at < replacements_.size();) {
    const std::size_t end = std::min(replacements_.find('\0', at), replacements_.size());
    if (end - at > most_entry_bytes)
      throw Error(QUERN_BAD_MODEL, concat("'precompiled_charsmap' puts ", end - at, " bytes in the place of a character; at most ",
                                          most_entry_bytes, " are accepted"));
    at = end + 1;
  }
}

Charsmap Charsmap::from_base64(std::string_view text) { return Charsmap(decode_base64("precompiled_charsmap", text)); }

template <typename Visit>
void Charsmap::each_entry(std::string_view text, const Visit& visit) const {
  const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); };
  std::size_t node = offset(trie_[0]), length = 0;
  for (const char c : text.substr(0, most_entry_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return;
    node ^= byte;
    if (node >= trie_.size()) return;
    const std::uint32_t unit = trie_[node];
    if ((unit & (1u << 31 | 0xFFu)) != byte) return;
    node ^= offset(unit);
    if (node >= trie_.size()) return;
    ++length;
    if ((unit >> 8 & 1) == 0) continue;
    const std::size_t start = trie_[node] & ~(1u << 31);
    if (start >= replacements_.size()) return;
    const std::string_view rest = std::string_view(replacements_).substr(start);
    if (!visit(Entry{length, rest.substr(0, std::min(rest.find('\0'), rest.size()))})) return;
  }
}

std::optional<Charsmap::Entry> Charsmap::shortest(std::string_view text) const {
  std::optional<Entry> found;
  each_entry(text, [&](const Entry& entry) {
    found = entry;
    return false;
  });
  return found;
}

std::optional<Charsmap::Entry> Charsmap::longest(std::string_view text) const {
  std::optional<Entry> found;
  each_entry(text, [&](const Entry& entry) {
    found = entry;
    return true;
  });
  return found;
}

}  // namespace quern::tokenizer
