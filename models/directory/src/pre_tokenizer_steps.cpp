#include "pre_tokenizer_steps.hpp"

#include "config.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::directory {
namespace {

// Expressions as the models' own files have them; each is computed by hand in models/tokenizer.
constexpr std::string_view gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view tekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A step is an expression whose matches are pieces, or one of these.
constexpr std::string_view single_digits = "Digits", bytes = "ByteLevel", words = "ByteLevel with its expression";

struct Rule {
  std::array<std::string_view, 2> steps;
  bool nfc, ignore_merges;
  std::string_view name;
};

constexpr Rule rules[] = {
    {{words}, false, false, "gpt-2"},
    {{gpt2, bytes}, false, false, "gpt-2"},
    {{words}, true, false, "olmo"},
    {{single_digits, words}, false, false, "smollm"},
    {{single_digits, words}, true, false, "command-r"},
    {{llama3, bytes}, false, true, "llama-bpe"},
    {{llama3, bytes}, false, false, "dbrx"},
    {{qwen2_expression, bytes}, true, false, "qwen2"},
    {{qwen2_expression, bytes}, false, false, "grok-2"},
    {{tekken, bytes}, false, true, "tekken"},
};

// Other names of a rule in GGUF files of the families here.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"default", "gpt-2"},     {"llama3", "llama-bpe"},       {"llama-v3", "llama-bpe"}, {"falcon3", "llama-bpe"},
    {"pixtral", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"}, {"stablelm2", "qwen2"},    {"smaug-bpe", "dbrx"},
    {"starcoder", "smollm"},  {"refact", "smollm"},          {"mpt", "olmo"},
};

/// The parts of a Sequence, or the one part; none for null.
std::vector<const Json*> parts_of(const JsonFile& file, std::string_view field, const Json* value, std::string_view list) {
  if (value == nullptr || value->is_null()) return {};
  const auto type = text_of(file, concat(field, ".type"), value->find("type"));
  if (!type) throw file.bad(field, "has no 'type'");
  if (*type != "Sequence") return {value};
  const Json* const inside = value->find(list);
  if (inside == nullptr || inside->list() == nullptr) throw file.bad(field, concat("is a Sequence without the list '", list, "'"));
  std::vector<const Json*> parts;
  for (const Json& part : *inside->list()) parts.push_back(&part);
  return parts;
}

std::string type_of(const JsonFile& file, std::string_view field, const Json& part) {
  const auto type = text_of(file, concat(field, ".type"), part.find("type"));
  if (!type) throw file.bad(field, "has a part without a 'type'");
  return *type;
}

std::optional<std::string> split_step(const JsonFile& file, std::string_view field, const Json& split) {
  const Json* const pattern = split.find("pattern");
  const Json* const regex = pattern == nullptr ? nullptr : pattern->find("Regex");
  const auto text = text_of(file, concat(field, ".pattern"), regex);
  const std::string behavior = text_of(file, concat(field, ".behavior"), split.find("behavior")).value_or("");
  const bool inverted = bool_of(file, concat(field, ".invert"), split.find("invert")).value_or(false);
  // The expressions above match every character, so both ways give the same pieces.
  return (behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted) ? text : std::nullopt;
}

/// Nothing for a step that no rule has.
std::optional<std::string> step_of(const JsonFile& file, const Json& part) {
  constexpr std::string_view field = "pre_tokenizer";
  const std::string type = type_of(file, field, part);
  if (type == "Split") return split_step(file, field, part);
  if (type == "Digits" && bool_of(file, concat(field, ".individual_digits"), part.find("individual_digits")).value_or(false))
    return std::string(single_digits);
  if (type == "ByteLevel" && !bool_of(file, concat(field, ".add_prefix_space"), part.find("add_prefix_space")).value_or(true))
    return std::string(bool_of(file, concat(field, ".use_regex"), part.find("use_regex")).value_or(true) ? words : bytes);
  return std::nullopt;
}

/// Whether form C is all that the normalizer does, or false for nothing.
std::optional<bool> is_nfc(const JsonFile& file) {
  constexpr std::string_view field = "normalizer";
  bool nfc = false;
  for (const Json* part : parts_of(file, field, file.json().find(field), "normalizers")) {
    if (type_of(file, field, *part) != "NFC") return std::nullopt;
    nfc = true;
  }
  return nfc;
}

void write_step(std::string_view step, JsonWriter& json) {
  if (step == single_digits) {
    json.member("type", "Digits");
    json.member("individual_digits", true);
  } else if (step == bytes || step == words) {
    json.member("type", "ByteLevel");
    json.member("add_prefix_space", false);
    json.member("trim_offsets", true);
    json.member("use_regex", step == words);
  } else {
    json.member("type", "Split");
    json.key("pattern");
    write_object(json, [&] { json.member("Regex", step); });
    json.member("behavior", "Isolated");
    json.member("invert", false);
  }
}

}  // namespace

std::optional<std::string_view> pre_tokenizer_of(const JsonFile& tokenizer) {
  constexpr std::string_view field = "pre_tokenizer";
  std::vector<std::string> steps;
  for (const Json* part : parts_of(tokenizer, field, tokenizer.json().find(field), "pretokenizers")) {
    const auto step = step_of(tokenizer, *part);
    if (!step) return std::nullopt;
    steps.push_back(*step);
  }
  const std::optional<bool> nfc = is_nfc(tokenizer);
  const Json* const model = tokenizer.json().find("model");
  const bool ignore_merges = bool_of(tokenizer, "model.ignore_merges", model->find("ignore_merges")).value_or(false);
  const auto is_meant = [&](const Rule& rule) {
    const auto count = static_cast<std::size_t>(std::ranges::find(rule.steps, std::string_view()) - rule.steps.begin());
    return std::ranges::equal(steps, std::span(rule.steps).first(count)) && rule.nfc == nfc && rule.ignore_merges == ignore_merges;
  };
  const auto rule = std::ranges::find_if(rules, is_meant);
  return rule == std::end(rules) ? std::nullopt : std::optional(rule->name);
}

KnownRule known_rule(std::string_view pre_tokenizer) {
  for (const auto& [other, name] : other_names)
    if (other == pre_tokenizer) pre_tokenizer = name;
  const auto at = std::ranges::find(rules, pre_tokenizer, &Rule::name);
  return at == std::end(rules) ? KnownRule() : KnownRule{at->name, at->ignore_merges};
}

void write_pre_tokenizer(std::string_view name, JsonWriter& json) {
  const Rule& rule = *std::ranges::find(rules, name, &Rule::name);
  json.key("normalizer");
  if (rule.nfc) write_object(json, [&] { json.member("type", "NFC"); });
  else json.value(nullptr);
  json.key("pre_tokenizer");
  write_object(json, [&] {
    json.member("type", "Sequence");
    json.key("pretokenizers");
    json.begin_array();
    for (const std::string_view step : rule.steps)
      if (!step.empty()) write_object(json, [&] { write_step(step, json); });
    json.end_array();
  });
}

}  // namespace quern::directory
