// Text to token ids and back, equal to the model's own tokenizer, token for token.
//
// Byte-level BPE ("gpt2" in a GGUF file), SentencePiece's BPE ("llama") and Unigram ("t5"), and what a tokenizer.json says as data
// ("huggingface"). The core reads a plain VocabularyView, so it knows no file format; tokenizer_from_gguf() fills one. The rules, with what
// each equals and where a file leaves a choice open, are in models/tokenizer/README.md.
#pragma once

#include "quern/models/utf8_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

namespace gguf {
class File;
}

/// What a vocabulary entry is for. The numbers are those of `tokenizer.ggml.token_type`.
enum class TokenType : std::int32_t {
  normal = 1,
  unknown = 2,       // stands for what the vocabulary cannot spell
  control = 3,       // markers such as <|im_start|>: matched in text only where special tokens are parsed
  user_defined = 4,  // whole words that are always matched before anything else
  unused = 5,
  byte = 6,  // <0x00> to <0xFF>
};

/// How a token that was added to a vocabulary is found in a text; what a tokenizer.json says of its added tokens.
struct AddedToken {
  std::int32_t id = 0;
  bool single_word = false;    // not inside a word
  bool takes_left = false;     // white space in front of it belongs to it
  bool takes_right = false;    // white space behind it belongs to it
  bool normalized = false;     // found in the normalised text
  bool outside_model = false;  // the model itself has no such token
};

/// A vocabulary as a model file holds it. Plain views: whoever fills it keeps the memory alive until the
/// Tokenizer is built, and no longer; the Tokenizer copies what it needs. Everything in it is untrusted.
struct VocabularyView {
  std::string_view source;         // the file's name, for errors of texts that its expressions cannot cut
  std::string_view model;          // "gpt2", "llama", "t5" or "huggingface"
  std::string_view pre_tokenizer;  // for "gpt2": see known_pre_tokenizers()
  std::span<const std::string_view> tokens;
  std::span<const std::int32_t> types;       // one for each token
  std::span<const double> scores;            // one for each token; "llama", "t5" and Unigram need them
  std::span<const std::string_view> merges;  // "left right", best first; BPE only
  /// "huggingface": JSON with `model` (without vocabulary and merges), `normalizer`, `pre_tokenizer` and `decoder` as tokenizer.json has them.
  std::string_view steps;
  std::span<const AddedToken> added;  // tokens of type control or user_defined without an entry have no flags

  std::optional<std::uint64_t> bos, eos, eot, eom,
      unknown;                      // as the file states them; checked against tokens
  std::vector<std::uint64_t> ends;  // further tokens that end an answer; checked too
  bool add_bos = false;             // what encode() does unless its options say otherwise
  bool add_eos = false;
  std::optional<bool> add_space_prefix;       // "llama", "t5": a text starts with a space (default); "gpt2": never
  bool space_prefix_at_start_only = false;    // "llama", "t5": what follows a control token starts without one
  bool remove_extra_whitespaces = false;      // "llama", "t5": runs of spaces count as one, those at the ends as none
  std::string_view charsmap;                  // "llama", "t5": SentencePiece's table of normalisations, as bytes; empty: none
  bool markers_take_following_space = false;  // white space after a control token belongs to it (Phi-3)
  std::string_view chat_template;             // a user-defined token that occurs in it is a marker, not a word of text
};

struct EncodeOptions {
  std::optional<bool> add_bos;  // default: what the file says
  std::optional<bool> add_eos;  // default: what the file says
  bool parse_special = true;    // false: the text of a control token is plain text; user-defined tokens still match
  std::optional<std::uint64_t> most_ids = std::nullopt;  // of the result; encode() stops with QUERN_CONTEXT_FULL where there are more
};

/// Bytes of a text, from `begin` to the one before `end`.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

struct TokenBytes {
  std::string bytes;     // what the token adds to the output; part of a UTF-8 sequence is possible
  bool special = false;  // a control or unknown token: bytes is its name, which most callers do not show
};

/// Ids with their places in the text.
struct PlacedIds {
  std::vector<std::int32_t> ids;
  /// For each id the first byte of the text that it stands for, ascending: 0 for a bos and the text's size for an eos that the text does
  /// not hold. Inside a character that Unicode form C changed, it is the place where the change begins.
  std::vector<std::size_t> places;
};

/// An immutable vocabulary with its rules. Every const function may be called from any thread at the same
/// time.
class Tokenizer {
 public:
  /// Checks and indexes the vocabulary. Reads `view` only during the call.
  /// Throws Error(QUERN_BAD_MODEL) naming the field that is malformed, and Error(QUERN_UNSUPPORTED) naming a
  /// model or pre-tokenizer that is not known here, with those that are.
  explicit Tokenizer(const VocabularyView& view);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// The ids of `text`. Time n log n in the length of the text, whatever it holds; memory about 64 bytes for
  /// each byte of the longest piece that is merged as one. `text` may be any bytes; see the README for
  /// invalid UTF-8. Throws Error(QUERN_INVALID_ARGUMENT) for a text of 1 GiB or more, and for add_bos or
  /// add_eos = true where the vocabulary has no such token; Error(QUERN_CONTEXT_FULL) with both numbers for more than
  /// options.most_ids: before anything is read where the length alone shows it, else between two pieces of the text.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The same for a text of which `foreign` came from someone who may not write special tokens: the messages
  /// of a chat. `foreign` is sorted, and no range touches the next; an empty range is a place where something
  /// foreign was taken away. A special token comes only of bytes between two of them; where there is none of
  /// its text in them, the ids are those of encode(text, options). User-defined tokens are special here too
  /// unless they are words of plain text (README.md). options.parse_special must be true.
  std::vector<std::int32_t> encode(std::string_view text, std::span<const TextRange> foreign, const EncodeOptions& options = {}) const;

  /// The same ids, with their places.
  PlacedIds encode_placed(std::string_view text, std::span<const TextRange> foreign, const EncodeOptions& options = {}) const;

  /// The text of `ids`: their bytes joined, what is not UTF-8 replaced by U+FFFD. The first space is dropped
  /// where drops_first_space(). With skip_special, control and unknown tokens add nothing. Throws
  /// Error(QUERN_INVALID_ARGUMENT) for an id that is not in the vocabulary, as do all functions that take
  /// one.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// The same as raw bytes: nothing is replaced.
  std::string decode_bytes(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// What one token adds to a running text. Join them through a Utf8Stream to print while generating.
  TokenBytes token_bytes(std::int32_t id) const;

  /// True if the spaces at the start of a text are the vocabulary's own business: encode() adds one (or
  /// removes those that are there), and decode() drops one. A caller that joins token_bytes() from the start
  /// of a text does it itself.
  bool drops_first_space() const noexcept;

  std::int32_t size() const noexcept;
  std::optional<std::int32_t> bos() const noexcept;
  std::optional<std::int32_t> eos() const noexcept;
  std::optional<std::int32_t> unknown() const noexcept;
  bool adds_bos() const noexcept;  // what the file says
  bool adds_eos() const noexcept;

  /// Every token that ends an answer: the file's eos, eot and eom, and control tokens with a name that is
  /// known to end a turn or a text (<|im_end|>, <|eot_id|>, </s>, <end_of_turn> ...). Ascending, each once.
  std::span<const std::int32_t> end_tokens() const noexcept;
  bool is_end(std::int32_t id) const noexcept;  // false for an id that is not in the vocabulary

  std::string_view token_text(std::int32_t id) const;  // as the file spells it; lives as long as the Tokenizer
  TokenType token_type(std::int32_t id) const;
  std::optional<std::int32_t> find(std::string_view text) const noexcept;  // by the file's spelling

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// The names of `tokenizer.ggml.pre` that encode() knows, in one line for error texts.
std::string known_pre_tokenizers();

/// The tokenizer of a GGUF file. It keeps nothing of the file. `pre_tokenizer` is used in place of what the file
/// names, unless it is empty; byte-level BPE without either gets the rule 'default' (pre_tokenizer_warning()).
/// Throws as the constructor does, with the file's name in front, and Error(QUERN_INVALID_ARGUMENT) for a
/// `pre_tokenizer` that is not known or that the file's model has no use for.
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const gguf::File& file, std::string_view pre_tokenizer = {});

/// For byte-level BPE of a file that names no rule: the sentence that says which one is taken. Empty for other files.
std::string pre_tokenizer_warning(const gguf::File& file);

}  // namespace quern
