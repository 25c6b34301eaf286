// Which of the known rules a tokenizer.json cuts texts by.
#pragma once

#include "json_file.hpp"

#include "quern/graph/json_writer.hpp"

#include <optional>
#include <string_view>

namespace quern::directory {

/// How Qwen 2 cuts texts; each of its matches is a piece.
inline constexpr std::string_view qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The name for tokenizer.ggml.pre, from `normalizer`, `pre_tokenizer` and `model.ignore_merges` of byte-level BPE; nothing where no rule has
/// these steps. Throws Error(QUERN_BAD_MODEL) for what is malformed.
std::optional<std::string_view> pre_tokenizer_of(const JsonFile& tokenizer);

/// An object whose members `members` writes.
void write_object(JsonWriter& json, const auto& members) {
  json.begin_object();
  members();
  json.end_object();
}

/// Whether byte-level BPE of this rule looks for a whole piece in the vocabulary before it merges; and the rule's name in the table here,
/// empty if it has none.
struct KnownRule {
  std::string_view name;
  bool ignore_merges = false;
};
KnownRule known_rule(std::string_view pre_tokenizer);

/// Members `normalizer` and `pre_tokenizer` of a rule that known_rule() has named.
void write_pre_tokenizer(std::string_view rule, JsonWriter& json);

}  // namespace quern::directory
