// The tokens of a model, checked and indexed by text. No rule of any tokenizer family is in here.
#pragma once

#include "quern/models/tokenizer.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

// Limits well above every vocabulary of these families (a quarter of a million tokens, half a million
// merges): what a small file can make a reader allocate stays small.
inline constexpr std::size_t max_tokens = std::size_t{1} << 20;
inline constexpr std::size_t max_token_bytes = std::size_t{64} << 10;
inline constexpr std::size_t max_merges = std::size_t{1} << 20;

/// Owns the text of all tokens in one block, with a hash table over it.
class Vocabulary {
 public:
  /// Checks tokens, types and special ids. Throws Error(QUERN_BAD_MODEL) naming the field.
  explicit Vocabulary(const VocabularyView& view);

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(types_.size()); }
  bool contains(std::int32_t id) const noexcept { return id >= 0 && id < size(); }

  // `id` must be in the vocabulary.
  std::string_view text(std::int32_t id) const noexcept {
    return std::string_view(text_).substr(starts_[id], starts_[id + 1] - starts_[id]);
  }
  TokenType type(std::int32_t id) const noexcept { return types_[id]; }
  /// A token that only a rule or the whole of its text makes, and foreign text never: control, unknown, and
  /// those user-defined ones that are no words of plain text (message_markers.hpp).
  bool is_marker(std::int32_t id) const noexcept { return markers_[static_cast<std::size_t>(id)]; }

  /// Whether the model itself has it: what was added beside the model is found in texts, but not by the model.
  bool is_in_model(std::int32_t id) const noexcept { return !outside_[static_cast<std::size_t>(id)]; }
  /// Whether the model may make it of a text.
  bool is_of_model(std::int32_t id) const noexcept { return is_in_model(id) && !is_marker(id); }

  /// -1 if there is no such token. Empty tokens cannot be found.
  std::int32_t find(std::string_view text) const noexcept;

  /// find() for many texts: several times as fast, because the memory for the next ones is fetched ahead.
  void find_all(std::span<const std::string_view> texts, std::span<std::int32_t> ids) const noexcept;

  /// Bytes of the longest token.
  std::size_t longest() const noexcept { return longest_; }

  /// The token for a byte by its <0xNN> spelling; -1 if there is none.
  std::int32_t byte_token(unsigned char byte) const noexcept { return byte_tokens_[byte]; }
  /// The byte that a token of type byte stands for.
  unsigned char byte_of(std::int32_t id) const noexcept;

  std::optional<std::int32_t> bos, eos, eot, eom, unknown;
  std::vector<std::int32_t> ends;  // further ones that the file states

 private:
  struct Slot {
    std::uint32_t tag = 0;  // other bits of the hash than those that chose the slot
    std::int32_t id = -1;
  };

  std::int32_t find_hashed(std::string_view text, std::uint64_t hash) const noexcept;
  void copy_tokens(const VocabularyView& view);
  void index_tokens();
  void read_types(const VocabularyView& view);

  std::string text_;
  std::vector<std::uint32_t> starts_;  // one more than there are tokens
  std::vector<TokenType> types_;
  std::vector<bool> markers_, outside_;
  std::vector<Slot> slots_;  // a power of two, at most two thirds full
  std::array<std::int32_t, 256> byte_tokens_{};
  std::size_t longest_ = 0;
  std::uint64_t seed_ = 0;
};

/// Whether tokenizer.ggml.model names one of SentencePiece's models, BPE or Unigram.
inline bool is_sentencepiece(std::string_view model) noexcept { return model == "llama" || model == "t5"; }

/// "<0x0A>" for 10.
std::string byte_name(unsigned char byte);
/// 10 for "<0x0A>"; -1 for anything that is not spelled so.
int parse_byte_name(std::string_view text) noexcept;

/// Fields as errors name them.
namespace field {
inline constexpr std::string_view tokens = "tokenizer.ggml.tokens";
inline constexpr std::string_view types = "tokenizer.ggml.token_type";
inline constexpr std::string_view scores = "tokenizer.ggml.scores";
inline constexpr std::string_view ends = "quern.end_token_ids";
inline constexpr std::string_view added = "quern.added_token_flags";
inline constexpr std::string_view merges = "tokenizer.ggml.merges";
inline constexpr std::string_view charsmap = "tokenizer.ggml.precompiled_charsmap";
}  // namespace field

}  // namespace quern::tokenizer
