// Byte-level BPE ("gpt2" in a GGUF file): bytes merge into tokens, the pair of the lowest rank first.
#pragma once

#include "merge_table.hpp"
#include "pre_tokenizer.hpp"
#include "token_sink.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

class ByteLevelBpe {
 public:
  /// Keeps a reference to `vocabulary`. Throws Error(QUERN_UNSUPPORTED) for an unknown pre-tokenizer and
  /// Error(QUERN_BAD_MODEL) for malformed merges or scores.
  ByteLevelBpe(const Vocabulary& vocabulary, const VocabularyView& view);

  /// Appends the ids of a text that holds no markers; merges make none, so that it does not matter what of the
  /// text is foreign. Stops once there are more than `most`.
  void encode(std::string_view text, std::span<const TextRange> foreign, std::uint64_t most, const TokenSink& found) const;

  /// Whether each byte of a text comes back as part of a token.
  bool keeps_every_byte() const noexcept {
    return std::ranges::all_of(byte_ids_, [](std::int32_t id) { return id >= 0; });
  }

  /// Appends the bytes of a token.
  void append_bytes(std::int32_t id, std::string& out) const;

 private:
  struct Scratch;
  /// Leaves the ids in `scratch`, with their places in the piece.
  void encode_piece(std::string_view piece, Scratch& scratch) const;
  std::int32_t whole_token(std::string_view piece, Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;  // -1 for a byte that no token spells
};

}  // namespace quern::tokenizer
