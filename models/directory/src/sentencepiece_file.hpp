// tokenizer.model of SentencePiece as the keys of a GGUF file.
#pragma once

#include "tokenizer_json.hpp"

#include <optional>
#include <string>

namespace quern::directory {

/// Nothing where there is no such file, or it is the text of a tiktoken vocabulary. tokenizer_config.json says which tokens were added, and
/// what stands in front of a text. Throws Error(QUERN_BAD_MODEL) and Error(QUERN_UNSUPPORTED) naming file and field.
std::optional<TokenList> write_sentencepiece_file(const std::string& folder, std::uint64_t rows, gguf::Writer& keys);

}  // namespace quern::directory
