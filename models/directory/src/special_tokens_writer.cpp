#include "special_tokens_writer.hpp"

#include "quern/graph/json_writer.hpp"

#include <utility>
#include <vector>

namespace quern::directory {
namespace {

constexpr std::string_view template_key = "tokenizer.chat_template";

std::vector<std::pair<std::string_view, std::string_view>> templates_of(const gguf::File& model) {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  for (const std::string_view key : model.keys()) {
    if (key != template_key && !key.starts_with(concat(template_key, "."))) continue;
    all.emplace_back(key == template_key ? "default" : key.substr(template_key.size() + 1), *model.find_string(key));
  }
  return all;
}

std::optional<std::int32_t> padding_of(const gguf::File& model, const Tokenizer& tokenizer) {
  const auto id = model.find_u64("tokenizer.ggml.padding_token_id");
  if (!id || *id >= static_cast<std::uint64_t>(tokenizer.size())) return std::nullopt;
  return static_cast<std::int32_t>(*id);
}

}  // namespace

std::string tokenizer_config_text(const gguf::File& model, const Tokenizer& tokenizer, std::uint64_t context) {
  JsonWriter json;
  json.begin_object();
  json.member("tokenizer_class", "PreTrainedTokenizerFast");
  const auto token = [&](std::string_view name, std::optional<std::int32_t> id) {
    if (id && tokenizer.token_type(*id) != TokenType::unused) json.member(name, tokenizer.token_text(*id));
  };
  token("bos_token", tokenizer.bos());
  token("eos_token", tokenizer.eos());
  token("unk_token", tokenizer.unknown());
  token("pad_token", padding_of(model, tokenizer));
  json.member("add_bos_token", tokenizer.adds_bos());
  json.member("add_eos_token", tokenizer.adds_eos());
  json.member("clean_up_tokenization_spaces", false);
  json.member("model_max_length", context);
  if (const auto templates = templates_of(model); !templates.empty() && !only_template(model)) {
    json.key("chat_template");
    json.begin_array();
    for (const auto& [name, text] : templates) {
      json.begin_object();
      json.member("name", name);
      json.member("template", text);
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  return json.take() + "\n";
}

std::string generation_config_text(const gguf::File& model, const Tokenizer& tokenizer) {
  JsonWriter json;
  json.begin_object();
  if (tokenizer.bos()) json.member("bos_token_id", *tokenizer.bos());
  if (!tokenizer.end_tokens().empty()) json.member("eos_token_id", tokenizer.end_tokens());
  if (const auto id = padding_of(model, tokenizer)) json.member("pad_token_id", *id);
  json.end_object();
  return json.take() + "\n";
}

std::optional<std::string_view> only_template(const gguf::File& model) {
  const auto templates = templates_of(model);
  if (templates.size() != 1 || templates.front().first != "default") return std::nullopt;
  return templates.front().second;
}

}  // namespace quern::directory
