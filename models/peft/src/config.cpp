// Reads adapter_config.json.
//
// peft gains keys with each release, so the rule is by value: what is null, false or empty changes nothing. Of the keys that have a value,
// those in `harmless` are about training alone, and any other is refused by its name.
#include "config.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/json.hpp"

#include <algorithm>
#include <cmath>

namespace quern::peft {
namespace {

constexpr std::size_t most_values = 100'000;
constexpr std::int64_t most_rank = 1 << 20;

// What changes the result, so that a reader which ignored it would give another model.
struct Lacked {
  std::string_view key, what;
};
constexpr Lacked lacked[] = {
    {"use_dora", "DoRA; train without it, or merge the adapter with peft"},
    {"alora_invocation_tokens", "adapters that begin at a token (aLoRA)"},
    {"modules_to_save", "modules that are trained whole; merge the adapter with peft"},
    {"fan_in_fan_out", "weights that are stored transposed"},
    {"layer_replication", "layers that are used several times"},
    {"trainable_token_indices", "trained rows of the embedding; merge the adapter with peft"},
    {"lora_bias", "biases of B"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "block-diagonal adapters"},
    {"target_parameters", "adapters of parameters that are no linear layer's"},
    {"arrow_config", "routing between adapters (Arrow)"},
    {"kasa_config", "KaSA"},
    {"monteclora_config", "MonteCLoRA"},
    {"velora_config", "VeLoRA"},
};

// What decides how an adapter is trained or where it came from; read elsewhere, or without effect on the result.
constexpr std::string_view harmless[] = {"alpha_pattern",
                                         "auto_mapping",
                                         "base_model_name_or_path",
                                         "bias",
                                         "corda_config",
                                         "ensure_weight_tying",
                                         "eva_config",
                                         "exclude_modules",
                                         "inference_mode",
                                         "init_lora_weights",
                                         "layers_pattern",
                                         "layers_to_transform",
                                         "loftq_config",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "lora_ga_config",
                                         "megatron_config",
                                         "megatron_core",
                                         "peft_type",
                                         "peft_version",
                                         "qalora_group_size",
                                         "r",
                                         "rank_pattern",
                                         "revision",
                                         "runtime_config",
                                         "target_modules",
                                         "task_type",
                                         "use_rslora"};

class Reader {
 public:
  Reader(const Json& json, const std::string& file) : json_(json), file_(file) {}

  Config read() const {
    check_keys();
    check_kind();
    Config config;
    config.rank = rank("r", require("r"));
    config.alpha = alpha("lora_alpha", require("lora_alpha"));
    config.rslora = flag("use_rslora");
    if (const Json* value = find("lora_dropout")) config.dropout = number("lora_dropout", *value);
    if (const Json* value = find("base_model_name_or_path")) config.base_model = text("base_model_name_or_path", *value);
    if (const Json* value = find("rank_pattern"))
      for (const Json::Member& one : pattern("rank_pattern", *value)) config.ranks.emplace_back(one.name, rank("rank_pattern", one.value));
    if (const Json* value = find("alpha_pattern"))
      for (const Json::Member& one : pattern("alpha_pattern", *value))
        config.alphas.emplace_back(one.name, alpha("alpha_pattern", one.value));
    read_modules(config);
    return config;
  }

 private:
  Error bad(std::string_view key, std::string_view text) const {
    return Error(QUERN_BAD_MODEL, concat(file_, ": key ", in_quotes(key), ": ", text));
  }
  Error unsupported(std::string_view key, std::string_view text) const {
    return Error(QUERN_UNSUPPORTED, concat(file_, ": key ", in_quotes(key), ": ", text));
  }

  static bool is_off(const Json& value) noexcept {
    if (value.is_null()) return true;
    if (const bool* truth = value.boolean()) return !*truth;
    if (const std::string* text = value.text()) return text->empty();
    if (const Json::List* list = value.list()) return list->empty();
    if (const Json::Members* members = value.members()) return members->empty();
    return false;
  }

  void check_keys() const {
    for (const Json::Member& member : *json_.members()) {
      if (is_off(member.value)) continue;
      if (const auto at = std::ranges::find(lacked, member.name, &Lacked::key); at != std::end(lacked))
        throw unsupported(member.name, concat("Quern does not have ", at->what));
      if (std::ranges::find(harmless, member.name) == std::end(harmless))
        throw unsupported(member.name, "is not known to Quern and has a value, so it may change what the adapter computes");
    }
  }

  void check_kind() const {
    const std::string kind = text("peft_type", require("peft_type"));
    if (kind != "LORA") throw unsupported("peft_type", concat("is ", in_quotes(kind), "; LORA is read"));
    if (const Json* bias = find("bias"); bias != nullptr && text("bias", *bias) != "none")
      throw unsupported("bias", concat("is ", in_quotes(text("bias", *bias)), "; trained biases are not read, so it has to be 'none'"));
    const Json* start = find("init_lora_weights");
    if (start == nullptr || start->boolean() != nullptr) return;
    // Others (pissa, olora, loftq, corda, lora_ga) change the base's own weights too, so that the adapter does not fit the original.
    const std::string way = text("init_lora_weights", *start);
    if (way != "gaussian" && way != "eva" && way != "orthogonal")
      throw unsupported("init_lora_weights",
                        concat("is ", in_quotes(way), ", which changes the base too; convert the adapter with peft first"));
  }

  void read_modules(Config& config) const {
    const Json* value = find("target_modules");
    if (value == nullptr || value->text() != nullptr) return;  // a regular expression, or "all-linear"
    if (value->list() == nullptr) throw bad("target_modules", "is neither a list nor text");
    config.modules.emplace();
    for (const Json& one : *value->list()) config.modules->push_back(text("target_modules", one));
  }

  /// Null where the key is missing or null.
  const Json* find(std::string_view key) const noexcept {
    const Json* value = json_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  const Json& require(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) throw bad(key, "is missing; every file of peft has it");
    return *value;
  }
  std::string text(std::string_view key, const Json& value) const {
    if (value.text() == nullptr) throw bad(key, "holds what is not text");
    return *value.text();
  }
  bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (value->boolean() == nullptr) throw bad(key, "is neither true nor false");
    return *value->boolean();
  }
  double number(std::string_view key, const Json& value) const {
    const std::optional<double> number = value.number();
    if (!number || !std::isfinite(*number)) throw bad(key, "holds what is not a number");
    return *number;
  }
  double alpha(std::string_view key, const Json& value) const {
    const double alpha = number(key, value);
    if (alpha == 0) throw bad(key, "is 0, so the adapter would change nothing");
    return alpha;
  }
  std::int64_t rank(std::string_view key, const Json& value) const {
    const std::optional<std::int64_t> rank = value.integer();
    if (!rank || *rank < 1 || *rank > most_rank) throw bad(key, concat("holds a rank that is not a whole number from 1 to ", most_rank));
    return *rank;
  }

  /// Its keys are regular expressions for peft. Names are read, with or without '^' in front; they mean the same there and here.
  const Json::Members& pattern(std::string_view key, const Json& value) const {
    if (value.members() == nullptr) throw bad(key, "is not an object");
    for (const Json::Member& one : *value.members()) {
      std::string_view name = one.name;
      if (name.starts_with('^')) name.remove_prefix(1);
      const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
      });
      if (!plain) throw unsupported(key, concat("has ", in_quotes(one.name), "; names of modules are read, regular expressions are not"));
    }
    return *value.members();
  }

  const Json& json_;
  const std::string& file_;
};

}  // namespace

Config read_config(std::string_view text, const std::string& file) {
  std::string why;
  const std::optional<Json> json = Json::parse(text, most_values, &why);
  if (!json) throw Error(QUERN_BAD_MODEL, concat(file, ": is ", why));
  if (!json->is_object()) throw Error(QUERN_BAD_MODEL, concat(file, ": is not an object of settings"));
  return Reader(*json, file).read();
}

bool applies_to(std::string_view key, std::string_view module) noexcept {
  if (key.starts_with('^')) return module == key.substr(1);
  if (!module.ends_with(key)) return false;
  return module.size() == key.size() || module[module.size() - key.size() - 1] == '.';
}

}  // namespace quern::peft
