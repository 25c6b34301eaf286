// A tokenizer as data: normalizer, splitter, model and decoder, one after another.
#pragma once

#include "bpe.hpp"
#include "decoder.hpp"
#include "marker_matcher.hpp"
#include "normalizer.hpp"
#include "splitter.hpp"
#include "token_sink.hpp"
#include "vocabulary.hpp"
#include "word_models.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quern::tokenizer {

/// Which white space and which neighbours decide about an added token that was found.
class AddedRules {
 public:
  AddedRules() = default;
  explicit AddedRules(std::span<const AddedToken> added);

  bool empty() const noexcept { return tokens_.empty(); }
  void set(const AddedToken& token);
  const AddedToken* find(std::int32_t id) const noexcept;
  /// The matches without those that are inside words, and with the white space that belongs to them.
  void apply(std::string_view text, std::vector<MarkerMatcher::Match>& matches) const;

 private:
  std::vector<AddedToken> tokens_;  // by id
};

class Pipeline {
 public:
  /// Keeps references to `vocabulary` and `rules`. Byte-level BPE ("gpt2") is the steps that view.pre_tokenizer names; "huggingface" has
  /// those of view.steps. Throws Error(QUERN_UNSUPPORTED) and Error(QUERN_BAD_MODEL), naming the step.
  Pipeline(const Vocabulary& vocabulary, const AddedRules& rules, const VocabularyView& view);

  /// Appends the ids of a text without the markers that are found before it is normalised. Stops once there are more than `most`.
  void encode(std::string_view text, std::span<const TextRange> foreign, bool parse_special, std::uint64_t most,
              const TokenSink& found) const;

  bool keeps_every_byte() const noexcept;

  /// The bytes of a token where others stand in front of it.
  void append_bytes(std::int32_t id, std::string& out) const;
  std::string decode(std::span<const std::int32_t> ids) const;
  bool drops_first_space() const noexcept { return decoder_ && decoder_->drops_first_space(); }

 private:
  using Model = std::variant<Bpe, Unigram, WordPiece, WordLevel>;
  struct Parts {
    Normalizer normalizer;
    Splitter splitter;
    std::optional<Decoder> decoder;
    Model model;
  };
  Pipeline(const Vocabulary& vocabulary, const AddedRules& rules, Parts parts);
  static Parts parts_of(const Vocabulary& vocabulary, const VocabularyView& view);
  static Parts named_parts(const Vocabulary& vocabulary, const VocabularyView& view);
  static Parts parts_of_json(const Vocabulary& vocabulary, const VocabularyView& view);
  static Model model_of_json(const Vocabulary& vocabulary, const VocabularyView& view, const Json& json, const Splitter& splitter);

  struct Scratch;
  /// Calls add(id, byte) for each token of a piece.
  template <typename Add>
  void encode_piece(std::string_view piece, Scratch& scratch, const Add& add) const;
  void encode_rule(std::string_view text, std::span<const std::size_t> origins, std::uint64_t most, const TokenSink& found) const;
  void encode_steps(NormalText text, std::uint64_t most, const TokenSink& found) const;

  std::vector<Marker> normalized_markers() const;
  /// As the package tokenizers spells it: what is found in the normalised text is spelled so.
  std::string spelling(std::int32_t id) const;

  const Vocabulary& vocabulary_;
  const AddedRules& rules_;
  Normalizer normalizer_;
  Splitter splitter_;
  std::optional<Decoder> decoder_;  // nothing: byte-level
  Model model_;
  MarkerMatcher normalized_;  // added tokens that are found in the normalised text
};

}  // namespace quern::tokenizer
