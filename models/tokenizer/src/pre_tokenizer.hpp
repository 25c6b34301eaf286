// Cuts a text into the pieces inside which byte-level BPE merges.
//
// Each rule equals the regular expressions of the model's own tokenizer, written out by hand. Each expression reads
// a character a fixed number of times at most, so no text is slow. (A backtracking matcher overflows its stack on long
// runs of one class.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::tokenizer {

struct PreTokenizer {
  enum class Rule : std::uint8_t {
    gpt2,            // GPT-2's expression
    digits_gpt2,     // every number character alone, then GPT-2's expression on what lies between
    llama3,          // Llama 3's expression, with at most max_numbers number characters in a piece
    tekken,          // words that end where small letters are followed by capitals
    deepseek_llm,    // expressions one after another, each on the pieces of the one before
    deepseek_coder,  // others, in the same way
  };
  Rule rule = Rule::gpt2;
  std::uint8_t max_numbers = 0;
  bool nfc = false;              // the text is brought to form C first
  bool ignore_merges = false;    // a piece that is a token is taken whole, whatever the merges say
  bool starts_with_bos = false;  // unless the file says otherwise

  bool operator==(const PreTokenizer&) const = default;
};

/// By the value of `tokenizer.ggml.pre`.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) noexcept;

/// The pieces of one text, from the left. They join to the text.
class PieceReader {
 public:
  PieceReader(const PreTokenizer& pre_tokenizer, std::string_view text) noexcept : pre_tokenizer_(pre_tokenizer), text_(text) {}
  /// Never empty, but at the end of the text.
  std::string_view next() noexcept;

 private:
  std::size_t staged_end() noexcept;

  PreTokenizer pre_tokenizer_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::array<std::size_t, 6> ends_{};  // of the piece of each expression that at_ lies in; each within the one before
};

}  // namespace quern::tokenizer
