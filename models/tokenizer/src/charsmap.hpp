// The table of normalisations of SentencePiece: a trie of what is replaced, in two arrays, and the replacements.
#pragma once

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

  /// What stands for the shortest entry that `text` starts with, as the package tokenizers takes it.
  std::optional<std::string_view> replacement(std::string_view text) const;

 private:
  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

/// Throws Error(QUERN_BAD_MODEL) naming `field`.
std::string decode_base64(std::string_view field, std::string_view text);

}  // namespace quern::tokenizer
