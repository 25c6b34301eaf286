// vocab.json with merges.txt, as the tokenizer.json that they stand for.
#pragma once

#include "json_file.hpp"

#include <optional>
#include <string>

namespace quern::directory {

/// `added_tokens_decoder` of tokenizer_config.json as the list `added_tokens` of a tokenizer.json; empty where it is absent.
Json added_tokens_of(const JsonFile& config);

/// Nothing where one of the two is absent. What cuts texts is known by `tokenizer_class` of tokenizer_config.json. Throws
/// Error(QUERN_UNSUPPORTED) for a class that is not known, Error(QUERN_BAD_MODEL) for malformed files.
std::optional<JsonFile> read_vocabulary_and_merges(const std::string& folder, std::uint64_t most_bytes);

}  // namespace quern::directory
