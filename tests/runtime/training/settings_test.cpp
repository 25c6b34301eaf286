// What settings mean: defaults, overrides, positions, notes.
#include "settings_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Settings, TheGoldenRunIsOneFile) {
  const Settings settings = parsed(R"(
base_model: SmolLM2-135M-Instruct.Q4_1.gguf
adapter: qlora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
datasets: [{path: train.jsonl, type: chat_template}]
test_datasets: [{path: val.jsonl, type: chat_template}]
micro_batch_size: 4
max_steps: 60
learning_rate: 1e-3
lr_scheduler: cosine
warmup_steps: 6
weight_decay: 0.01
float32: true
seed: 42
output_dir: out
)")
                                .settings;
  Settings expected;
  expected.base_model = "SmolLM2-135M-Instruct.Q4_1.gguf";
  expected.adapter = Adapter::qlora;
  expected.lora_target_modules = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  expected.datasets = {{.path = "train.jsonl", .type = ExampleType::chat_template}};
  expected.test_datasets = {{.path = "val.jsonl", .type = ExampleType::chat_template}};
  expected.micro_batch_size = 4;
  expected.max_steps = 60;
  expected.learning_rate = 1e-3;
  expected.warmup_steps = 6;
  expected.weight_decay = 0.01;
  expected.precision = Precision::float32;
  expected.output_dir = "out";
  EXPECT_EQ(settings, expected);
  EXPECT_EQ(settings.schedule(60).warmup_steps, 6u);
}

TEST(Settings, AbsentAndEmptyKeysHaveTheirDefaults) {
  Settings expected;
  expected.base_model = "m.gguf";
  expected.learning_rate = 1e-4;
  EXPECT_EQ(parsed(least).settings, expected);
  EXPECT_EQ(
      parsed("base_model: m.gguf\nlearning_rate: 1e-4\nlora_model_dir:\nlora_r: ~\nmax_steps: -1\nresume_from_checkpoint:\n").settings,
      expected);
}

TEST(Settings, WhatIsMissingIsNamed) {
  EXPECT_EQ(refusal_of("base_model: m.gguf").path, "learning_rate");
  EXPECT_EQ(refusal_of("learning_rate: 1").path, "base_model");
  EXPECT_THAT(refusal_of("learning_rate: 1").text, HasSubstr("cfg.yaml: 'base_model' is missing; give"));
  EXPECT_THAT(with("datasets: [{path: a.jsonl}]").settings.datasets, ElementsAre(DatasetSettings{.path = "a.jsonl"}));
  EXPECT_THAT(refusal_with("datasets:\n  - {path: a.jsonl}\n  - type: alpaca\n"), HasSubstr("cfg.yaml:5: 'datasets[1]' has no path"));
}

TEST(Settings, ARefusalBeginsWithFileAndLine) {
  EXPECT_EQ(refusal_with("lora_alfa: 3\n"), "cfg.yaml:3: unknown key 'lora_alfa'; did you mean 'lora_alpha'?");
  EXPECT_THAT(refusal_with("datasets:\n  - path: a\n    type: nonsense\n"),
              HasSubstr("cfg.yaml:5: 'datasets[0].type' is the text 'nonsense'"));
  EXPECT_EQ(refusal_of("base_model: m\nlearning_rate: 1\nlora:\n  r: 0\n").path, "lora.r");
}

TEST(Settings, TypeAndRangeAreBothShown) {
  EXPECT_EQ(refusal_with("adapter: lora\nlora_r: eight\n"),
            "cfg.yaml:4: 'lora_r' is the text 'eight'; it takes a whole number from 1 to 65536");
  EXPECT_EQ(refusal_with("adapter: lora\nlora_dropout: 1\n"), "cfg.yaml:4: 'lora_dropout' is 1; it takes a number from 0 and below 1");
  EXPECT_EQ(refusal_with("micro_batch_size: 1.5\n"), "cfg.yaml:3: 'micro_batch_size' is 1.5; it takes a whole number from 1 to 65536");
  EXPECT_EQ(refusal_with("seed: -1\n"), "cfg.yaml:3: 'seed' is -1; it takes a whole number from 0 up");
  EXPECT_EQ(refusal_with("shuffle: yes\n"), "cfg.yaml:3: 'shuffle' is the text 'yes'; it takes true or false");
  EXPECT_EQ(refusal_of("base_model: m\nlearning_rate: 0\n").text,
            "cfg.yaml:2: 'learning_rate' is 0; it takes a number above 0 and up to 1000");
  EXPECT_EQ(refusal_with("sequence_len: {a: 1}\n"),
            "cfg.yaml:3: 'sequence_len' is a group of keys; it takes a whole number from 2 to 16777216");
}

TEST(Settings, WholeNumbersMayBeWrittenAsFloats) {
  EXPECT_EQ(with("max_steps: 1e3\n").settings.max_steps, 1000u);
  EXPECT_EQ(with("seed: 18446744073709551615\n").settings.seed, ~std::uint64_t{0});
}

TEST(Settings, AKeyTwiceIsRefusedAlsoBySynonym) {
  EXPECT_EQ(refusal_with("adapter: lora\nlora_r: 8\nlora_rank: 8\n"),
            "cfg.yaml:5: 'lora_rank' and 'lora_r' are one setting, at cfg.yaml:4; keep one of the two");
  EXPECT_THAT(refusal_with("data: x\ndatasets: [{path: y}]\n"), HasSubstr("cfg.yaml:4: 'datasets' and 'data' are one setting"));
  EXPECT_THAT(refusal_with("datasets: [{type: alpaca, format: alpaca, path: x}]\n"), HasSubstr("are one setting"));
  EXPECT_THROW(parse_settings(R"({"base_model": "m", "learning_rate": 1, "seed": 1, "seed": 2})"), SettingsError);
  EXPECT_EQ(with("lora_r: ~\nadapter: lora\nr: 4\n").settings.lora_r, 4u) << "an empty key is not given";
}

TEST(Overrides, AreStrongerThanAnySynonymOfTheFile) {
  EXPECT_EQ(with("adapter: lora\nlora_rank: 8\n", {"lora_r=16"}).settings.lora_r, 16u);
  EXPECT_EQ(with("adapter: lora\nlora_r: 8\n", {"lora.r=16", "r=32"}).settings.lora_r, 32u);
  EXPECT_EQ(with("max_steps: 5\n", {"max_steps="}).settings.max_steps, std::nullopt);
  EXPECT_EQ(with("mask_prompt: false\n", {"train_on_inputs=false"}).settings.train_on_inputs, false);
}

TEST(Overrides, ReachIntoDatasetsAndSchedules) {
  const auto file = "datasets:\n  - {path: a, type: alpaca}\n  - {path: b}\n";
  const Settings settings = with(file, {"datasets[1].path=c.jsonl", "datasets[2].path=d", "lr_scheduler_kwargs.num_cycles=2",
                                        "lr_scheduler=cosine_with_restarts"})
                                .settings;
  ASSERT_EQ(settings.datasets.size(), 3u);
  EXPECT_EQ(settings.datasets[0].type, ExampleType::alpaca);
  EXPECT_EQ(settings.datasets[1].path, "c.jsonl");
  EXPECT_EQ(settings.datasets[2].path, "d");
  EXPECT_EQ(settings.lr_scheduler_kwargs.num_cycles, 2);
  EXPECT_EQ(with("dataset: {path: a, format: alpaca}\n", {"dataset.path=z"}).settings.datasets[0].path, "z");
  EXPECT_EQ(with(file, {"datasets=x.jsonl,y.jsonl"}).settings.datasets.size(), 2u);
  EXPECT_THAT(with("adapter: lora\n", {"lora_target_modules=[v_proj,q_proj]"}).settings.lora_target_modules,
              ElementsAre("q_proj", "v_proj"));
}

TEST(Overrides, RefusalsNameThem) {
  EXPECT_THAT(refusal_with("", {"lora_alfa=3"}), HasSubstr("'lora_alfa=3': unknown key 'lora_alfa'; did you mean 'lora_alpha'?"));
  EXPECT_THAT(refusal_with("seed: 1\n", {"seed=x"}), HasSubstr("'seed=x': 'seed' is the text 'x'"));
  EXPECT_THAT(refusal_with("lora: {r: 4}\n", {"lora={\"r\": 0}"}), HasSubstr("'lora={\"r\": 0}': 'lora.r' is 0"));
  EXPECT_THAT(refusal_with("", {"seed"}), HasSubstr("'seed': an override has the form key=value"));
  EXPECT_THAT(refusal_with("", {"datasets[3].path=x"}), HasSubstr("beyond the 0 entries"));
  EXPECT_THAT(refusal_with("", {"datasets[x].path=x"}), HasSubstr("is no path"));
  EXPECT_THAT(refusal_with("", {"datasets[99999999999999999999].path=x"}), HasSubstr("is no path"));
  EXPECT_THAT(refusal_with("", {"datasets[0].type=alpaca"}), HasSubstr("has no path"));
  EXPECT_THAT(refusal_with("", {"seed[0]=1"}), HasSubstr("unknown key 'seed[0]'"));
}

TEST(Settings, WhatChangesNothingIsNoted) {
  const auto notes =
      with(
          "flash_attention: true\ndataloader_num_workers: 4\nspecial_tokens:\n  pad_token: <pad>\nwandb_project:\ntrust_remote_code: false\n")
          .notes;
  EXPECT_THAT(notes, ElementsAre(HasSubstr("'flash_attention' changes nothing"), HasSubstr("'dataloader_num_workers' changes nothing"),
                                 HasSubstr("'special_tokens.pad_token' changes nothing")));
}

TEST(Settings, AGroupOfLoraAsksForLora) {
  const auto file = with("lora:\n  r: 4\n");
  EXPECT_EQ(file.settings.adapter, Adapter::lora);
  EXPECT_THAT(file.notes, ElementsAre(HasSubstr("adapter: lora")));
  EXPECT_EQ(with("lora: {}\n").settings.adapter, Adapter::none);
}

TEST(Settings, TextThatIsNoSettingsIsRefused) {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const std::string& text : {std::string(), std::string("["), std::string("[]"), std::string("3"), std::string("{\"a\": \"\xff\"}"),
                                  "{\"base_model\": " + deep + "}", std::string(2 << 20, ' ')})
    EXPECT_THROW(parse_settings(text), SettingsError) << text.substr(0, 20);
  EXPECT_THROW(parse_places("[]"), SettingsError);
  EXPECT_THROW(parse_places("{\"a\": 1}"), SettingsError);
}

TEST(Settings, ManyEntriesAreBounded) {
  std::string list;
  for (int i = 0; i < 2000; ++i) list += "x,";
  EXPECT_THAT(refusal_with("data: \"" + list + "\"\n"), HasSubstr("more than 1000 entries"));
}

}  // namespace
}  // namespace quern::training
