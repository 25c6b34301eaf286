// Keys that contradict each other or need each other, and the less simple values.
#include "settings_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Rules, KeysThatContradictAreRefused) {
  EXPECT_THAT(refusal_with("warmup_steps: 3\nwarmup_ratio: 0.1\n"), HasSubstr("cfg.yaml:4: 'warmup_ratio' and 'warmup_steps' contradict"));
  EXPECT_THAT(refusal_with("warmup_steps: 0.2\nwarmup_ratio: 0.1\n"), HasSubstr("contradict"));
  EXPECT_THAT(refusal_with("eval_steps: 3\nevals_per_epoch: 2\n"), HasSubstr("'evals_per_epoch' and 'eval_steps' contradict"));
  EXPECT_THAT(refusal_with("save_every: 3\nsave_strategy: epoch\n"),
              HasSubstr("cfg.yaml:3: 'save_every' and 'save_strategy: epoch' contradict"));
  EXPECT_THAT(refusal_with("eval_strategy: steps\n"), HasSubstr("'eval_steps' is missing"));
  EXPECT_THAT(refusal_with("bf16: true\nfp16: true\n"), HasSubstr("'fp16' and 'bf16' are both true"));
  EXPECT_THAT(refusal_with("mixed_precision: bf16\nfloat32: true\n"), HasSubstr("'float32' and 'mixed_precision' are both true"));
  EXPECT_THAT(refusal_with("val_set_size: 0.1\ntest_datasets: [{path: v}]\n"), HasSubstr("contradict"));
  EXPECT_THAT(refusal_with("adapter: lora\nlora_target_linear: true\nlora_target_modules: [q_proj]\n"), HasSubstr("keep one of the two"));
  EXPECT_THAT(refusal_with("lora_r: 8\n"), HasSubstr("'lora_r' is given, but all weights are trained; give adapter: lora"));
  EXPECT_THAT(refusal_with("adapter: none\nlora:\n  r: 8\n"), HasSubstr("all weights are trained"));
  EXPECT_THAT(refusal_with("sgd_momentum: 0.9\n"), HasSubstr("optimizer: sgd"));
  EXPECT_THAT(refusal_with("chat_template: a.jinja\nchat_template_jinja: b.jinja\n"), HasSubstr("contradict"));
}

TEST(Rules, WhatNeedsAValidationSetIsRefusedWithoutOne) {
  EXPECT_THAT(refusal_with("early_stopping_patience: 3\n"), HasSubstr("needs a validation set"));
  EXPECT_THAT(refusal_with("load_best_model_at_end: true\n"), HasSubstr("needs a validation set"));
  EXPECT_THAT(refusal_with("load_best_model_at_end: true\nval_set_size: 8\neval_strategy: no\n"), HasSubstr("needs evaluations"));
  EXPECT_TRUE(with("load_best_model_at_end: true\nval_set_size: 8\n").settings.load_best_model_at_end);
}

TEST(Rules, OptionsBelongToTheirSchedule) {
  EXPECT_THAT(refusal_with("lr_scheduler_kwargs: {power: 2}\n"), HasSubstr("belongs to the schedule polynomial"));
  EXPECT_THAT(refusal_with("lr_scheduler: cosine_with_min_lr\n"), HasSubstr("either min_lr or min_lr_rate"));
  EXPECT_THAT(refusal_with("lr_scheduler: polynomial\nlr_scheduler_kwargs: {lr_end: 1}\n"), HasSubstr("not below learning_rate"));
  EXPECT_THAT(refusal_with("lr_scheduler_kwargs: {num_cycle: 2}\n"),
              HasSubstr("unknown key 'lr_scheduler_kwargs.num_cycle'; did you mean num_cycles?"));
  EXPECT_THAT(refusal_with("lr_scheduler: linear\ncosine_min_lr_ratio: 0.1\n"), HasSubstr("belongs to the schedule cosine"));
  const Settings settings = with("cosine_min_lr_ratio: 0.1\n").settings;
  EXPECT_EQ(settings.lr_scheduler, ScheduleKind::cosine_with_min_lr);
  EXPECT_EQ(settings.lr_scheduler_kwargs.min_lr_rate, 0.1);
}

TEST(Values, PrecisionHasOneMeaning) {
  EXPECT_EQ(with("bf16: auto\nfp16: false\n").settings.precision, Precision::automatic);
  EXPECT_EQ(with("bf16: true\nfp16: false\n").settings.precision, Precision::bf16);
  EXPECT_EQ(with("bf16: false\nfp16: true\n").settings.precision, Precision::fp16);
  EXPECT_EQ(with("bf16: false\n").settings.precision, Precision::float32);
  EXPECT_EQ(with("bfloat16: true\n").settings.precision, Precision::bf16);
  EXPECT_EQ(with("float16: true\n").settings.precision, Precision::fp16);
  EXPECT_EQ(with("mixed_precision: fp16\n").settings.precision, Precision::fp16);
  EXPECT_EQ(with("mixed_precision: no\n").settings.precision, Precision::float32);
}

TEST(Values, IntervalsAreStepsSharesOrParts) {
  EXPECT_EQ(with("").settings.evaluation, Interval());
  EXPECT_EQ(with("eval_steps: 10\n").settings.evaluation, (Interval{When::steps, 10}));
  EXPECT_EQ(with("eval_steps: 0.05\neval_strategy: steps\n").settings.evaluation, (Interval{When::steps, 0.05}));
  EXPECT_EQ(with("evals_per_epoch: 4\n").settings.evaluation, (Interval{When::parts, 0, 4}));
  EXPECT_EQ(with("save_strategy: no\n").settings.saving.when, When::never);
  EXPECT_THAT(refusal_with("save_steps: 1.5\n"), HasSubstr("a whole number, or a share below 1"));
}

TEST(Values, ModulesAreNamedAsPeersNameThem) {
  const auto modules = [](const std::string& value) {
    return with("adapter: lora\nlora_target_modules: " + value + "\n").settings.lora_target_modules;
  };
  EXPECT_THAT(modules("[down_proj, q_proj, q_proj]"), ElementsAre("q_proj", "down_proj"));
  EXPECT_THAT(modules("[self_attn.v_proj]"), ElementsAre("v_proj"));
  EXPECT_THAT(modules("q_proj, v_proj"), ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(modules("all-linear").size(), 7u);
  EXPECT_THAT(refusal_with("adapter: lora\nlora_target_modules: [q_porj]\n"), HasSubstr("did you mean q_proj?"));
  EXPECT_THAT(refusal_with("adapter: lora\nlora_target_modules: []\n"), HasSubstr("empty list"));
  EXPECT_THAT(with("adapter: lora\npeft_layers_to_transform: [3, 1, 3]\n").settings.peft_layers_to_transform, ElementsAre(1u, 3u));
}

TEST(Values, OfDatasetsAreRead) {
  const DatasetSettings read = with(R"(datasets:
  - path: a
    type: sharegpt
    field_messages: turns
    message_property_mappings: {role: from, content: value}
    roles_to_train: [assistant, tool]
    train_on_eos: last
    message_field_training: train
    mask_template_text: true
    special_tokens_in_content: refuse
    skip_bad_lines: true
)")
                                   .settings.datasets[0];
  const DatasetSettings expected{.path = "a",
                                 .type = ExampleType::sharegpt,
                                 .field_messages = "turns",
                                 .message_property_mappings = {{"content", "value"}, {"role", "from"}},
                                 .roles_to_train = {"assistant", "tool"},
                                 .train_on_eos = TrainOnEos::last,
                                 .message_field_training = "train",
                                 .mask_template_text = true,
                                 .special_tokens_in_content = SpecialTokensInContent::refuse,
                                 .skip_bad_lines = true};
  EXPECT_EQ(read, expected);
}

TEST(Values, OthersThanUsualAreRead) {
  EXPECT_EQ(with("resume_from_checkpoint: true\n").settings.resume_last, true);
  EXPECT_EQ(with("resume_from_checkpoint: out/checkpoint-3\n").settings.resume_from_checkpoint, "out/checkpoint-3");
  EXPECT_EQ(with("report_to: [tensorboard]\n").settings.tensorboard, true);
  EXPECT_EQ(with("report_to: none\n").settings.tensorboard, false);
  EXPECT_EQ(with("gradient_checkpointing: selective\n").settings.gradient_checkpointing, Checkpointing::selective);
  EXPECT_EQ(with("selective_checkpointing: true\n").settings.gradient_checkpointing, Checkpointing::selective);
  EXPECT_EQ(with("validation_split_percentage: 5\n").settings.val_set_size, 0.05);
  EXPECT_EQ(with("warmup_steps: 0.1\n").settings.schedule(60).warmup_steps, 6u);
  EXPECT_EQ(with("chat_template: \"{{ messages }}\"\n").settings.chat_template, "{{ messages }}");
  EXPECT_EQ(with("adapter: lora\nlora_parameters: {rank: 4, scale: 20.0}\n").settings.lora_alpha, 80);
  EXPECT_EQ(with("use_peft: true\n").settings.adapter, Adapter::lora);
}

}  // namespace
}  // namespace quern::training
