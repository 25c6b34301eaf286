// Models that look tokens up by their text: Unigram, WordPiece, WordLevel.
#pragma once

#include "best_path.hpp"
#include "bpe.hpp"
#include "vocabulary.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

/// The tokens whose scores add up to most. Neighbours that are unknown are one.
class Unigram {
 public:
  /// Throws Error(QUERN_BAD_MODEL) for scores that do not fit the tokens.
  Unigram(const Vocabulary& vocabulary, std::span<const double> scores, std::int32_t unknown, bool byte_fallback);
  void encode(std::string_view piece, std::vector<Found>& found) const;

 private:
  /// A run of unknown characters, where it lies in the piece.
  void add_unknown(std::string_view text, std::uint32_t begin, std::vector<Found>& found) const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  PrefixIndex tokens_;
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
