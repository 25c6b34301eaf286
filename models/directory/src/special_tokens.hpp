// tokenizer_config.json, generation_config.json and chat_template.jinja as the keys of a GGUF file.
#pragma once

#include "config.hpp"
#include "tokenizer_json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::directory {

/// A token as tokenizer_config.json names it: by its text, or by an object with the text as `content`.
std::optional<std::uint64_t> named_token(const JsonFile& file, std::string_view name, const TokenList& list);

/// Which tokens begin and end texts and answers.
void write_special_tokens(const std::string& folder, const Config& config, const TokenList& list, gguf::Writer& keys);

/// The chat template, and others by name.
void write_templates(const std::string& folder, gguf::Writer& keys);

}  // namespace quern::directory
