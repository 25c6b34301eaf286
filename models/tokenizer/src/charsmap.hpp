// The table of normalisations of SentencePiece: a trie of what is replaced, in two arrays, and the replacements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

class Charsmap {
 public:
  /// Of the bytes that a model file has. Throws Error(QUERN_BAD_MODEL).
  explicit Charsmap(std::string_view bytes);
  /// The same, in base64.
  static Charsmap from_base64(std::string_view text);

  /// An entry that a text starts with: its bytes, and what stands for them.
  struct Entry {
    std::size_t length;
    std::string_view replacement;
  };
  /// The shortest one, as the package tokenizers takes it.
  std::optional<Entry> shortest(std::string_view text) const;
  /// The longest one, as the package sentencepiece takes it.
  std::optional<Entry> longest(std::string_view text) const;

 private:
  /// Calls visit(entry) for each entry that `text` starts with, the shortest first, until it returns false.
  template <typename Visit>
  void each_entry(std::string_view text, const Visit& visit) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

}  // namespace quern::tokenizer
