// Cuts a text into the pieces inside which byte-level BPE merges.
//
// Each rule equals a regular expression of the model's own tokenizer, written out by hand: one step reads
// each character at most twice, so no text is slow (a backtracking matcher overflows its stack on long runs
// of one class).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::tokenizer {

struct PreTokenizer {
  enum class Rule : std::uint8_t {
    gpt2,         // GPT-2's expression
    digits_gpt2,  // every number character alone, then GPT-2's expression on what lies between
    llama3,       // Llama 3's expression, with at most max_numbers number characters in a piece
  };
  Rule rule = Rule::gpt2;
  std::uint8_t max_numbers = 0;
  bool nfc = false;              // the text is brought to form C first
  bool ignore_merges = false;    // a piece that is a token is taken whole, whatever the merges say
  bool starts_with_bos = false;  // unless the file says otherwise
};

/// By the value of `tokenizer.ggml.pre`.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) noexcept;

/// The end of the piece that starts at `at`, which must be below text.size(). Always above `at`.
std::size_t piece_end(const PreTokenizer& pre_tokenizer, std::string_view text, std::size_t at) noexcept;

}  // namespace quern::tokenizer
