// SentencePiece's models: BPE ("llama" in a GGUF file), where characters merge into tokens, the token of the highest score first, and
// Unigram ("t5"), where the tokens are those whose scores add up to most.
#pragma once

#include "best_path.hpp"
#include "charsmap.hpp"
#include "marker_matcher.hpp"
#include "token_sink.hpp"
#include "vocabulary.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

class SentencePiece {
 public:
  /// Keeps a reference to `vocabulary`. Throws Error(QUERN_BAD_MODEL) for scores that do not fit the tokens,
  /// and for a vocabulary that cannot spell every text: neither all 256 byte tokens nor an unknown token.
  SentencePiece(const Vocabulary& vocabulary, const VocabularyView& view);

  /// Appends the ids of a text that holds no control tokens; `foreign` as Tokenizer::encode() takes it. An
  /// empty text has none, not even the space prefix.
  /// Stops once there are more than `most`.
  void encode(std::string_view text, std::span<const TextRange> foreign, bool parse_special, std::uint64_t most,
              const TokenSink& found) const;

  /// Whether each byte of a text comes back as part of a token: no white space is left out, no run becomes one 'unknown'.
  bool keeps_every_byte() const noexcept { return byte_fallback_ && !remove_extra_spaces_ && !charsmap_; }

  /// Appends the bytes of a token; U+2581 is a space.
  void append_bytes(std::int32_t id, std::string& out) const;
  std::string decode(std::span<const std::int32_t> ids) const;
  /// Whether decode() takes the space in front away.
  bool drops_first_space() const noexcept { return space_prefix_ || remove_extra_spaces_; }

 private:
  struct Merger;
  struct Output;
  /// What stands for the text at a place, and how many bytes of it that are.
  struct Normalised {
    std::string_view bytes;
    std::size_t length;
  };
  Normalised normalise_at(std::string_view text, std::size_t at, std::uint64_t& steps_left) const;
  /// Moves the bounds of `foreign` to where they lie in the result. `origins`, unless it is null, gets for each byte of the result where it
  /// comes from.
  std::string normalise(std::string_view text, bool prefixed, std::vector<TextRange>& foreign, std::vector<std::size_t>* origins) const;
  std::int32_t find_piece(std::string_view text) const noexcept;
  void index_for_unigram();
  void encode_unigram(std::string_view text, std::span<const TextRange> foreign, std::uint64_t most, Output& output) const;
  void encode_merging(std::string_view text, std::span<const TextRange> foreign, std::uint64_t most, Output& output) const;

  const Vocabulary& vocabulary_;
  std::vector<float> scores_;
  std::optional<Charsmap> charsmap_;
  PrefixIndex kept_;            // user-defined tokens that the table of normalisations leaves as they are
  MarkerMatcher user_defined_;  // matched in the normalised text
  bool is_unigram_;
  PrefixIndex unigram_tokens_;
  float unigram_unknown_score_ = 0;
  bool space_prefix_ = true;
  bool prefix_at_start_only_ = false;
  bool remove_extra_spaces_ = false;
  bool byte_fallback_ = false;
};

}  // namespace quern::tokenizer
