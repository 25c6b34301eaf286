#include "families.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>

namespace quern::directory {
namespace {

// Of transformers 5.24, src/transformers/models/*/configuration_*.py. A null there is no row here.
constexpr Default llama_defaults[] = {
    {"vocab_size", 32000},     {"hidden_size", 4096},       {"intermediate_size", 11008},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"max_position_embeddings", 2048},
    {"rms_norm_eps", 1e-6},    {"rope_theta", 10000},
};
constexpr Default mistral_defaults[] = {
    {"vocab_size", 32000},     {"hidden_size", 4096},       {"intermediate_size", 14336},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"max_position_embeddings", 131072},
    {"rms_norm_eps", 1e-6},    {"rope_theta", 10000},       {"num_key_value_heads", 8},
    {"sliding_window", 4096},
};
constexpr Default qwen2_defaults[] = {
    {"vocab_size", 151936},    {"hidden_size", 4096},       {"intermediate_size", 22016},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"max_position_embeddings", 32768},
    {"rms_norm_eps", 1e-6},    {"rope_theta", 10000},       {"num_key_value_heads", 32},
    {"sliding_window", 4096},  {"max_window_layers", 28},
};
constexpr Default qwen3_defaults[] = {
    {"vocab_size", 151936},    {"hidden_size", 4096},       {"intermediate_size", 22016},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"max_position_embeddings", 32768},
    {"rms_norm_eps", 1e-6},    {"rope_theta", 10000},       {"num_key_value_heads", 32},
    {"sliding_window", 4096},  {"max_window_layers", 28},   {"head_dim", 128},
};

constexpr Family families[] = {
    {"llama", "LlamaForCausalLM", "llama", true, Window::never, Biases::if_stated, llama_defaults},
    {"mistral", "MistralForCausalLM", "llama", true, Window::if_stated, Biases::never, mistral_defaults},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", false, Window::if_used, Biases::of_qkv, qwen2_defaults},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", false, Window::if_used, Biases::if_stated, qwen3_defaults},
};

std::string known_model_types() {
  std::string list;
  for (const Family& family : families) list += concat(list.empty() ? "" : ", ", family.model_type);
  return list;
}

const Family* find_family(std::string_view Family::*field, std::string_view value) {
  const auto at = std::ranges::find(families, value, field);
  return at == std::end(families) ? nullptr : &*at;
}

/// The first of `architectures`; empty where there is none.
std::string class_of(const Config& config) {
  const Json* const list = config.file().json().find("architectures");
  if (list == nullptr || list->is_null()) return {};
  if (list->list() == nullptr || list->list()->empty() || list->list()->front().text() == nullptr)
    throw config.file().bad("architectures", "is not a list of names");
  return *list->list()->front().text();
}

std::optional<std::string> model_type_of(const Config& config) {
  const Json& where = config.text_config() != nullptr ? *config.text_config() : config.file().json();
  return text_of(config.file(), "model_type", where.find("model_type"));
}

void refuse_experts(const Config& config) {
  for (const std::string_view name : {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"})
    if (const auto count = config.find_count(name, 0, UINT64_MAX); count.value_or(0) > 1)
      throw config.file().unsupported(name, concat("is ", *count, "; mixtures of experts are not supported by this version"));
}

}  // namespace

const Family& family_of(const Config& config) {
  refuse_experts(config);
  const std::string class_name = class_of(config);
  if (const Family* family = find_family(&Family::class_name, class_name)) return *family;
  const std::optional<std::string> type = model_type_of(config);
  const Family* const family = type ? find_family(&Family::model_type, *type) : nullptr;
  // A class of its own around a known type may compute anything, unless it is a text model inside a multimodal one.
  if (family != nullptr && (class_name.empty() || config.text_config() != nullptr)) return *family;
  if (config.file().json().find("auto_map") != nullptr)
    throw config.file().unsupported("auto_map", concat("names code of the model's own, which is never run; this version has the types ",
                                                       known_model_types()));
  if (!class_name.empty() && (!type || family != nullptr))
    throw config.file().unsupported("architectures", concat("is ", in_quotes(class_name, 64),
                                                            ", which is not known; this version has the types ", known_model_types()));
  if (!type) throw config.file().bad("model_type", "is missing, and so is 'architectures'; it says which model this is");
  throw config.file().unsupported("model_type",
                                  concat("is ", in_quotes(*type, 64), ", which is not known; this version has ", known_model_types()));
}

const Family& family_of(std::string_view architecture, bool windowed) {
  for (const Family& family : families)
    if (family.architecture == architecture && (family.window == Window::if_used || (family.window == Window::if_stated) == windowed))
      return family;
  throw Error(QUERN_UNSUPPORTED, concat("no directory is written of the architecture ", in_quotes(architecture, 64),
                                        windowed ? " with a window" : "", "; this version has the types ", known_model_types()));
}

std::optional<double> default_of(const Family& family, std::string_view name) noexcept {
  const auto at = std::ranges::find(family.defaults, name, &Default::name);
  return at == family.defaults.end() ? std::nullopt : std::optional(at->value);
}

}  // namespace quern::directory
