// Files that are written: resolved ones, and those that a user begins with.
#include "quern/training/settings_file.hpp"

#include "settings_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::training {
namespace {

using testing::HasSubstr;

Settings read_again(const Settings& settings) { return parsed(resolved_file(settings)).settings; }

TEST(ResolvedFile, GivesTheSameSettingsAgain) {
  const char* const files[] = {
      "",
      "adapter: lora\n",
      "adapter: qlora\nlora_r: 4\nlora_alpha: 7.5\nlora_target_modules: [v_proj]\npeft_layers_to_transform: [0, 5]\nlora_model_dir: old\n",
      "datasets: [{path: 'a b: #c', type: alpaca, prompt_style: alpaca}, {path: yes}]\ntest_datasets: [{path: \"\\u00e9\\n\\t\\\"'\", roles_to_train: []}]\n",
      "val_set_size: 0.1\nevals_per_epoch: 3\nsave_steps: 0.25\nload_best_model_at_end: true\nearly_stopping_patience: 2\n",
      "eval_strategy: no\nsave_strategy: no\nwarmup_ratio: 0.03\nnum_epochs: 0.5\nmax_steps: 12\n",
      "cosine_min_lr_ratio: 0.1\nwarmup_steps: 7\noptimizer: sgd\nsgd_momentum: 0.9\n",
      "lr_scheduler: polynomial\nlr_scheduler_kwargs: {power: 2, lr_end: 1e-9}\nadam_epsilon: 1e-16\nseed: 18446744073709551615\n",
      "fp16: true\nreport_to: tensorboard\nresume_from_checkpoint: true\nmax_grad_norm: 0\n",
      "float32: true\nresume_from_checkpoint: './x'\nloss_watchdog_threshold: 1e20\nsave_total_limit: 3\n",
      "bf16: true\ngradient_checkpointing: selective\nsequence_len: 100\nexcess_length_strategy: truncate\n",
      "chat_template: |\n  {% for m in messages %}\n  {{ m.content }}\n  {% endfor %}\n",
  };
  for (const char* file : files) {
    const Settings settings = with(file).settings;
    EXPECT_EQ(read_again(settings), settings) << resolved_file(settings);
  }
}

TEST(ResolvedFile, HasEveryKeyByOurNamesAndNoComment) {
  const std::string text = resolved_file(with("adapter: lora\n").settings);
  for (const SettingKey& key : setting_keys()) {
    const bool other_name = key.name == "lora_target_linear" || key.name == "chat_template_jinja" || key.name == "cosine_min_lr_ratio";
    EXPECT_EQ(("\n" + text).find("\n" + std::string(key.name) + ":") == std::string::npos, other_name) << key.name;
  }
}

TEST(ResolvedFile, ACommentCannotBecomeASetting) {
  const std::vector<std::string> comments = {"quern 0.1.0", "device\nseed: 7"};
  const Settings settings = with("").settings;
  const std::string text = resolved_file(settings, comments);
  EXPECT_THAT(text, HasSubstr("# quern 0.1.0\n# device seed: 7\n"));
  EXPECT_EQ(parsed(text).settings, settings);
}

TEST(StarterFile, IsReadForEveryKindAndModel) {
  for (const char* model : {"SmolLM2-135M-Instruct", "tinyllama.gguf", "mistral", "qwen2.5-7b", "Qwen3", "llama", "a strange: name"}) {
    for (const Adapter adapter : {Adapter::none, Adapter::lora, Adapter::qlora}) {
      const ParsedSettings read = parsed(starter_file(adapter, model));
      EXPECT_EQ(read.settings.base_model, model);
      EXPECT_EQ(read.settings.adapter, adapter);
      EXPECT_TRUE(read.notes.empty());
    }
  }
}

TEST(StarterFile, ModelsDifferInCommentsAndNameAlone) {
  Settings one = parsed(starter_file(Adapter::lora, "smollm2")).settings;
  one.base_model = "qwen3";
  EXPECT_EQ(one, parsed(starter_file(Adapter::lora, "qwen3")).settings);
  EXPECT_THAT(starter_file(Adapter::lora, "SmolLM2"), HasSubstr("4.9 million"));
}

}  // namespace
}  // namespace quern::training
