// tokenizer_config.json, generation_config.json and chat_template.jinja as the keys of a GGUF file.
#pragma once

#include "config.hpp"
#include "tokenizer_json.hpp"

#include <string>

namespace quern::directory {

/// Which tokens begin and end texts and answers.
void write_special_tokens(const std::string& folder, const Config& config, const TokenList& list, gguf::Writer& keys);

/// The chat template, and others by name.
void write_templates(const std::string& folder, gguf::Writer& keys);

}  // namespace quern::directory
