// Which of the known rules a tokenizer.json cuts texts by.
#pragma once

#include "json_file.hpp"

#include <optional>
#include <string_view>

namespace quern::directory {

/// How Qwen 2 cuts texts; each of its matches is a piece.
inline constexpr std::string_view qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The name for tokenizer.ggml.pre, from `normalizer`, `pre_tokenizer` and `model.ignore_merges` of byte-level BPE; nothing where no rule has
/// these steps. Throws Error(QUERN_BAD_MODEL) for what is malformed.
std::optional<std::string_view> pre_tokenizer_of(const JsonFile& tokenizer);

}  // namespace quern::directory
