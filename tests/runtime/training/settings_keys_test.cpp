// Keys that are not known, stand at another level, or belong to another program.
#include "settings_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace quern::training {
namespace {

using testing::HasSubstr;

std::set<std::string> known_names() {
  std::set<std::string> names;
  for (const SettingKey& key : setting_keys()) {
    names.emplace(key.name);
    names.insert(key.synonyms.begin(), key.synonyms.end());
  }
  return names;
}

TEST(Keys, EachMisspeltByOneLetterIsRefusedWithItsName) {
  const std::set<std::string> known = known_names();
  int misspelt = 0;
  for (const SettingKey& key : setting_keys()) {
    const std::string name(key.name);
    for (std::size_t at = 1; at < name.size(); ++at) {
      std::string replaced = name, other = name;
      replaced[at] = 'x';
      if (at % 2 == 0) other.insert(at, 1, name[at]);
      else other.erase(at, 1);
      for (const std::string& wrong : {replaced, other}) {
        if (known.contains(wrong) || wrong == name || wrong == "lr_schedule") continue;  // keys themselves
        ++misspelt;
        const std::string text = refusal_with(wrong + ": 1\n");
        EXPECT_THAT(text, HasSubstr("cfg.yaml:3: unknown key '" + wrong + "'"));
        // Some names are equally near to two.
        if (!name.starts_with("adam_beta") && wrong != "f16") EXPECT_THAT(text, HasSubstr("did you mean '" + name + "'?")) << wrong;
      }
    }
  }
  EXPECT_GT(misspelt, 700);
}

TEST(Keys, EachIsRefusedInADatasetWithTheLevelWhereItBelongs) {
  for (const SettingKey& key : setting_keys()) {
    const std::string name(key.name);
    EXPECT_THAT(refusal_with("datasets:\n  - path: a\n    " + name + ": 1\n"),
                HasSubstr("cfg.yaml:5: unknown key 'datasets[0]." + name + "'; " + name + " belongs at the top level"));
    EXPECT_THAT(refusal_with("lora:\n  " + name + ": 1\n"),
                HasSubstr("cfg.yaml:4: unknown key 'lora." + name + "'; " + name + " belongs at the top level"));
  }
}

TEST(Keys, EachOfADatasetIsRefusedAtTheTop) {
  for (const SettingKey& key : dataset_keys())
    EXPECT_THAT(refusal_with(std::string(key.name) + ": 1\n"), HasSubstr("belongs in an entry of datasets")) << key.name;
}

TEST(Keys, EachOfADatasetMisspeltIsRefusedWithItsName) {
  for (const SettingKey& key : dataset_keys()) {
    std::string wrong(key.name);
    wrong.insert(2, "q");
    EXPECT_THAT(refusal_with("datasets:\n  - path: a\n    " + wrong + ": 1\n"), HasSubstr("did you mean '" + std::string(key.name) + "'?"));
  }
}

TEST(Keys, ThoseOfGroupsAreSuggestedWithTheirGroup) {
  EXPECT_THAT(refusal_with("lora:\n  alfa: 1\n"), HasSubstr("unknown key 'lora.alfa'; did you mean 'lora.alpha'?"));
  EXPECT_THAT(refusal_with("training:\n  learning_rat: 1\n"), HasSubstr("did you mean 'training.learning_rate'?"));
  EXPECT_THAT(refusal_with("flash_attenton: true\n"), HasSubstr("did you mean 'flash_attention'?"));
  EXPECT_THAT(refusal_with("zzzzzzzz: true\n"), HasSubstr("quern train --init"));
  EXPECT_THAT(refusal_with("\"lora.r\": 8\n"), HasSubstr("write groups as nested keys"));
}

TEST(Keys, NoNameStandsForTwoSettings) {
  std::set<std::string> seen;
  for (const SettingKey& key : setting_keys()) {
    EXPECT_TRUE(seen.emplace(key.name).second) << key.name;
    for (const std::string_view synonym : key.synonyms)
      if (!synonym.ends_with("mixed_precision")) EXPECT_TRUE(seen.emplace(synonym).second) << synonym;
  }
}

struct Foreign {
  const char* yaml;
  const char* advice;
};

class ForeignKeys : public testing::TestWithParam<Foreign> {};

TEST_P(ForeignKeys, AreRefusedWithWhatToDoInstead) {
  const std::string text = refusal_with(std::string("adapter: lora\n") + GetParam().yaml + "\n");
  EXPECT_THAT(text, HasSubstr("cfg.yaml:4: ")) << GetParam().yaml;
  EXPECT_THAT(text, HasSubstr(GetParam().advice)) << GetParam().yaml;
}

INSTANTIATE_TEST_SUITE_P(
    All, ForeignKeys,
    testing::Values(
        Foreign{"deepspeed: zero3.json", "one device"}, Foreign{"fsdp: [full_shard]", "one device"},
        Foreign{"fsdp_config: {version: 2}", "one device"}, Foreign{"wandb_project: x", "report_to: tensorboard"},
        Foreign{"hub_model_id: a/b", "nothing is uploaded"}, Foreign{"trust_remote_code: true", "never run"},
        Foreign{"rl: grpo", "preference"}, Foreign{"rl: dpo", "preference"}, Foreign{"peft_use_dora: true", "DoRA is not supported yet"},
        Foreign{"use_dora: true", "DoRA is not supported yet"}, Foreign{"lr_scheduler: rex", "it takes one of constant"},
        Foreign{"optimizer: adamw_8bit", "take adamw"}, Foreign{"optim: paged_adamw_32bit", "take adamw"},
        Foreign{"optimizer: adamw_bnb_8bit", "take adamw"}, Foreign{"lora_modules_to_save: [lm_head]", "not supported yet"},
        Foreign{"loraplus_lr_ratio: 16", "one rate"}, Foreign{"lora_rank_pattern: {q_proj: 4}", "one rank"},
        Foreign{"lora_alpha_pattern: {q_proj: 4}", "one alpha"}, Foreign{"gradient_checkpointing: offload", "take true"},
        Foreign{"lora_target_modules: [embed_tokens]", "not supported yet"}, Foreign{"special_tokens: {eos_token: x}", "model's file"},
        Foreign{"num_layers: 16", "peft_layers_to_transform"}, Foreign{"stage: dpo", "preference"},
        Foreign{"do_train: false", "quern train always trains"}, Foreign{"completion_only_loss: false", "train_on_inputs: true"},
        Foreign{"report_to: wandb", "jsonl and tensorboard"}, Foreign{"template: llama3", "not chosen by name"},
        Foreign{"datasets: [{path: a, type: preference}]", "not supported yet"}, Foreign{"max_samples: 5", "cut the file"},
        Foreign{"save_strategy: best", "load_best_model_at_end"}, Foreign{"lr_schedule: {name: cosine_decay}", "lr_scheduler"}));

TEST(Keys, EmptyAndFalseValuesOfForeignKeysAreTaken) {
  EXPECT_TRUE(with("deepspeed:\nwandb_project: ''\npush_to_hub: false\nfsdp: []\nspecial_tokens:\nrl: ~\nnum_layers: -1\nstage: sft\n")
                  .notes.empty());
}

}  // namespace
}  // namespace quern::training
