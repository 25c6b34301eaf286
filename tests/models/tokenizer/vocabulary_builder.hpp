// Small vocabularies for tests: good ones that a test changes in one place.
#pragma once

#include "quern/models/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::test {

/// Owns what a VocabularyView points at.
struct VocabularyBuilder {
  std::string model, pre_tokenizer;
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  std::vector<double> scores;
  VocabularyView settings;  // its views are filled by view()

  /// Appends a token and returns its id.
  std::int32_t add(std::string_view text, TokenType type = TokenType::normal, float score = 0);
  /// Appends "left right" and the token that it makes.
  void merge(std::string_view left, std::string_view right);

  /// Points into this object: valid until it changes.
  VocabularyView view();
  Tokenizer build() { return Tokenizer(view()); }

 private:
  std::vector<std::string_view> token_views_, merge_views_;
};

/// Byte-level BPE: <|end|> (control, id 0), <tool> (user-defined, id 1), the 256 byte tokens from id 2 on, no
/// merges.
VocabularyBuilder byte_level(std::string_view pre_tokenizer = "gpt-2");
inline constexpr std::int32_t first_byte = 2;

/// SentencePiece: <unk> (0), <s> (1), </s> (2), 256 byte tokens from id 3 on, then U+2581 and the letters a
/// to e.
VocabularyBuilder sentencepiece();
inline constexpr std::string_view space_mark = "\xE2\x96\x81";

/// The text of each token of `text`, for readable expectations.
std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {});

}  // namespace quern::test
