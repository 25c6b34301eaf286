// Models that look tokens up by their text: Unigram, WordPiece, WordLevel.
#pragma once

#include "bpe.hpp"
#include "vocabulary.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

/// The tokens whose scores add up to most, by Viterbi's method.
class Unigram {
 public:
  /// Throws Error(QUERN_BAD_MODEL) for scores that do not fit the tokens.
  Unigram(const Vocabulary& vocabulary, std::span<const double> scores, std::int32_t unknown, bool byte_fallback);
  void encode(std::string_view piece, std::vector<Found>& found) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  std::vector<std::int32_t> sorted_;  // ids in the order of their texts
  double unknown_score_ = 0;
  std::int32_t unknown_;
  bool byte_fallback_;
  std::array<std::int32_t, 256> byte_ids_{};
};

/// The longest token from the left, then the longest that continues a word, and so on. A word that is not such tokens is one unknown.
class WordPiece {
 public:
  WordPiece(const Vocabulary& vocabulary, std::string prefix, std::int32_t unknown, std::uint64_t most_characters)
      : vocabulary_(vocabulary), prefix_(std::move(prefix)), unknown_(unknown), most_characters_(most_characters) {}
  void encode(std::string_view piece, std::vector<Found>& found) const;

 private:
  const Vocabulary& vocabulary_;
  std::string prefix_;
  std::int32_t unknown_;
  std::uint64_t most_characters_;
};

/// A piece is a token, or unknown.
class WordLevel {
 public:
  WordLevel(const Vocabulary& vocabulary, std::int32_t unknown) : vocabulary_(vocabulary), unknown_(unknown) {}
  void encode(std::string_view piece, std::vector<Found>& found) const;

 private:
  const Vocabulary& vocabulary_;
  std::int32_t unknown_;
};

}  // namespace quern::tokenizer
