// tokenizer.json as the keys of a GGUF file.
#pragma once

#include "quern/models/gguf_writer.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::directory {

inline constexpr std::uint64_t most_tokenizer_bytes = 64 << 20;               // of a file
inline constexpr std::uint64_t most_tokens = 1 << 20, most_merges = 1 << 20;  // as models/tokenizer has them

/// As tokenizer.ggml.token_type has them; 0 is nobody's yet.
namespace token_type {
inline constexpr std::int32_t normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6;
}

struct TokenList {
  std::vector<std::string> tokens;  // by id
  std::vector<std::int32_t> types;
  std::optional<std::uint64_t> begin, end;  // what the post-processor puts around a text
  bool has_template = false;                // it says what is put there, if anything

  std::optional<std::uint64_t> find(std::string_view text) const noexcept;
};

/// Makes a token [PADn] of type unused of each id without one, up to `rows` at least.
void fill_up(TokenList& list, std::uint64_t rows);

/// Writes model, rule, tokens, types and merges. The list is filled up to `rows`, those of the table of embeddings, as GGUF files are.
/// Throws Error(QUERN_BAD_MODEL) and Error(QUERN_UNSUPPORTED) naming file and field.
TokenList write_tokenizer_keys(const std::string& folder, std::uint64_t rows, gguf::Writer& keys);

}  // namespace quern::directory
