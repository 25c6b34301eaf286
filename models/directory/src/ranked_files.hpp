// tekken.json and tiktoken vocabularies, as the tokenizer.json that they stand for.
#pragma once

#include "json_file.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace quern::directory {

/// Nothing where there is no tekken.json. Throws Error(QUERN_BAD_MODEL) and Error(QUERN_UNSUPPORTED) naming file and field.
std::optional<JsonFile> read_tekken(const std::string& folder);

/// Of the one *.tiktoken file, or of tokenizer.model where that is such a text; nothing without one. The expression is `pat_str` of
/// tokenizer_config.json or config.json, or that of a class that is known. Throws as read_tekken().
std::optional<JsonFile> read_tiktoken(const std::string& folder);

/// Whether bytes are lines of base64 rather than a message of SentencePiece, no field of which starts with such a character.
bool is_tiktoken(std::string_view bytes) noexcept;

}  // namespace quern::directory
