// tokenizer_config.json, generation_config.json and chat templates of a GGUF file: what special_tokens.hpp reads, the other way round.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::directory {

/// With the templates inside, if there are several.
std::string tokenizer_config_text(const gguf::File& model, const Tokenizer& tokenizer, std::uint64_t context);

/// Every token that ends an answer is an end.
std::string generation_config_text(const gguf::File& model, const Tokenizer& tokenizer);

/// The chat template, if there is one and no other beside it.
std::optional<std::string_view> only_template(const gguf::File& model);

}  // namespace quern::directory
