// Writes adapter_config.json.
#include "config.hpp"

#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <cmath>

namespace quern::peft {
namespace {

class Text {
 public:
  Text() { writer_.begin_object(); }
  std::string take() {
    writer_.end_object();
    return writer_.take() + "\n";
  }

  template <typename T>
  void member(std::string_view key, const T& value) {
    writer_.member(key, value);
  }
  void null(std::string_view key) { writer_.member(key, nullptr); }
  void nulls(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) null(key);
  }
  void empty_object(std::string_view key) {
    writer_.key(key);
    writer_.begin_object();
    writer_.end_object();
  }

  /// Whole numbers without a point: tools read lora_alpha as a whole number where it is one.
  void number(std::string_view key, double number) {
    if (std::trunc(number) == number && std::fabs(number) < 1e15) writer_.member(key, static_cast<std::int64_t>(number));
    else writer_.member(key, number);
  }

  void alpha_pattern(const Adapter& adapter) {
    writer_.key("alpha_pattern");
    writer_.begin_object();
    for (const AdapterMatrix& matrix : adapter.matrices)
      if (matrix.alpha && *matrix.alpha != adapter.alpha) number(module_of(matrix), *matrix.alpha);
    writer_.end_object();
  }
  void rank_pattern(const Adapter& adapter) {
    writer_.key("rank_pattern");
    writer_.begin_object();
    for (const AdapterMatrix& matrix : adapter.matrices)
      if (matrix.rank != adapter.rank) writer_.member(module_of(matrix), matrix.rank);
    writer_.end_object();
  }

 private:
  static std::string module_of(const AdapterMatrix& matrix) { return "model." + matrix.name(); }

  JsonWriter writer_;
};

}  // namespace

std::string config_text(const Adapter& adapter) {
  std::vector<std::string_view> modules;
  for (const Target target : every_target)
    if (std::ranges::any_of(adapter.matrices, [&](const AdapterMatrix& one) { return one.target == target; }))
      modules.push_back(peft_name(target));

  Text text;
  text.null("alora_invocation_tokens");
  text.alpha_pattern(adapter);
  text.nulls({"arrow_config", "auto_mapping"});
  if (adapter.base_model.empty()) text.null("base_model_name_or_path");
  else text.member("base_model_name_or_path", adapter.base_model);
  text.member("bias", "none");
  text.null("corda_config");
  text.member("ensure_weight_tying", false);
  text.nulls({"eva_config", "exclude_modules"});
  text.member("fan_in_fan_out", false);
  text.member("inference_mode", true);
  text.member("init_lora_weights", true);
  text.nulls({"kasa_config", "layer_replication", "layers_pattern", "layers_to_transform"});
  text.empty_object("loftq_config");
  text.number("lora_alpha", adapter.alpha);
  text.member("lora_bias", false);
  text.member("lora_dropout", adapter.dropout);
  text.nulls({"lora_ga_config", "megatron_config"});
  text.member("megatron_core", "megatron.core");
  text.nulls({"modules_to_save", "monteclora_config"});
  text.member("peft_type", "LORA");
  text.member("peft_version", "0.21.2");
  text.member("qalora_group_size", 16);
  text.member("r", adapter.rank);
  text.rank_pattern(adapter);
  text.null("revision");
  text.member("target_modules", modules);
  text.null("target_parameters");
  text.member("task_type", "CAUSAL_LM");
  text.nulls({"trainable_token_indices", "use_bdlora"});
  text.member("use_dora", false);
  text.member("use_qalora", false);
  text.member("use_rslora", adapter.rslora);
  text.null("velora_config");
  return text.take();
}

}  // namespace quern::peft
