// Files in the manner of other programs.
#include "settings_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::training {
namespace {

const std::vector<std::string> all_seven = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

TEST(Styles, Axolotl) {
  const Settings settings = parsed(R"(
base_model: tinyllama-q4.gguf
model_type: LlamaForCausalLM
tokenizer_type: AutoTokenizer
load_in_8bit: false
load_in_4bit: true
datasets:
  - path: alpaca.jsonl
    type: alpaca
dataset_prepared_path: prepared
val_set_size: 0.05
output_dir: ./outputs/qlora
adapter: qlora
lora_model_dir:
sequence_len: 4096
sample_packing: true
eval_sample_packing: false
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_target_modules:
lora_target_linear: true
wandb_project:
wandb_entity:
wandb_watch:
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 4
optimizer: adamw_torch_fused
lr_scheduler: cosine
learning_rate: 0.0002
bf16: auto
tf32: false
gradient_checkpointing: true
resume_from_checkpoint:
logging_steps: 1
flash_attention: true
eval_table_size:
eval_max_new_tokens: 128
shuffle_merged_datasets: false
use_tensorboard: true
debug:
ddp:
loss_watchdog_threshold: 5.0
loss_watchdog_patience: 3
warmup_ratio: 0.1
evals_per_epoch: 4
saves_per_epoch: 1
weight_decay: 0.0
special_tokens:
  pad_token: "</s>"
)")
                                .settings;
  Settings expected;
  expected.base_model = "tinyllama-q4.gguf";
  expected.adapter = Adapter::qlora;
  expected.datasets = {{.path = "alpaca.jsonl", .type = ExampleType::alpaca}};
  expected.val_set_size = 0.05;
  expected.output_dir = "./outputs/qlora";
  expected.sequence_len = 4096;
  expected.sample_packing = true;
  expected.lora_r = 32;
  expected.lora_dropout = 0.05;
  expected.lora_target_modules = all_seven;
  expected.gradient_accumulation_steps = 4;
  expected.micro_batch_size = 2;
  expected.num_epochs = 4;
  expected.learning_rate = 2e-4;
  expected.gradient_checkpointing = Checkpointing::full;
  expected.logging_steps = 1;
  expected.shuffle = false;
  expected.tensorboard = true;
  expected.loss_watchdog_threshold = 5;
  expected.warmup_ratio = 0.1;
  expected.evaluation = {When::parts, 0, 4};
  expected.saving = {When::parts, 0, 1};
  EXPECT_EQ(settings, expected);
}

TEST(Styles, MlxLm) {
  const Settings settings = parsed(R"(
model: smollm2.gguf
train: true
fine_tune_type: lora
training_mode: normal
optimizer: adamw
data: corpus
seed: 7
num_layers: -1
batch_size: 4
iters: 600
val_batches: 25
learning_rate: 1e-5
steps_per_report: 20
steps_per_eval: 200
resume_adapter_file: null
adapter_path: adapters
save_every: 100
test: false
test_batches: 100
max_seq_length: 1024
grad_checkpoint: true
mask_prompt: false
lora_parameters:
  keys: ["self_attn.q_proj", "self_attn.v_proj"]
  rank: 16
  scale: 2.0
  dropout: 0.1
)")
                                .settings;
  Settings expected;
  expected.base_model = "smollm2.gguf";
  expected.adapter = Adapter::lora;
  expected.datasets = {{.path = "corpus"}};
  expected.seed = 7;
  expected.micro_batch_size = 4;
  expected.max_steps = 600;
  expected.learning_rate = 1e-5;
  expected.logging_steps = 20;
  expected.evaluation = {When::steps, 200};
  expected.output_dir = "adapters";
  expected.saving = {When::steps, 100};
  expected.sequence_len = 1024;
  expected.gradient_checkpointing = Checkpointing::full;
  expected.train_on_inputs = true;
  expected.lora_target_modules = {"q_proj", "v_proj"};
  expected.lora_r = 16;
  expected.lora_alpha = 32;
  expected.lora_dropout = 0.1;
  EXPECT_EQ(settings, expected);
}

TEST(Styles, LlamaFactory) {
  const Settings settings = parsed(R"(
model_name_or_path: qwen3-0.6b.gguf
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
dataset: one.jsonl, two.jsonl
cutoff_len: 2048
preprocessing_num_workers: 16
dataloader_num_workers: 4
output_dir: saves/qwen3
logging_steps: 10
save_steps: 500
plot_loss: true
overwrite_output_dir: true
save_only_model: false
report_to: none
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
ddp_timeout: 180000000
resume_from_checkpoint: null
val_size: 0.1
per_device_eval_batch_size: 1
eval_strategy: steps
eval_steps: 500
)")
                                .settings;
  Settings expected;
  expected.base_model = "qwen3-0.6b.gguf";
  expected.adapter = Adapter::lora;
  expected.lora_target_modules = all_seven;
  expected.datasets = {{.path = "one.jsonl"}, {.path = "two.jsonl"}};
  expected.sequence_len = 2048;
  expected.output_dir = "saves/qwen3";
  expected.saving = {When::steps, 500};
  expected.gradient_accumulation_steps = 8;
  expected.learning_rate = 1e-4;
  expected.num_epochs = 3;
  expected.warmup_ratio = 0.1;
  expected.precision = Precision::bf16;
  expected.val_set_size = 0.1;
  expected.evaluation = {When::steps, 500};
  EXPECT_EQ(settings, expected);
}

TEST(Styles, Trl) {
  const Settings settings = parsed(R"(
model_name_or_path: m.gguf
dataset_name: chats.jsonl
attn_implementation: sdpa
dtype: bfloat16
learning_rate: 2.0e-4
num_train_epochs: 1
packing: true
max_length: 1024
assistant_only_loss: true
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
gradient_checkpointing: true
gradient_checkpointing_kwargs: {use_reentrant: false}
lr_scheduler_type: cosine_with_min_lr
lr_scheduler_kwargs: {min_lr_rate: 0.1}
warmup_steps: 20
optim: adamw_torch
max_grad_norm: 0.3
adam_beta2: 0.95
use_peft: true
lora_r: 32
lora_alpha: 16
lora_target_modules: [q_proj, v_proj]
use_rslora: true
eval_strategy: "no"
save_strategy: steps
save_steps: 100
save_total_limit: 2
logging_steps: 25
output_dir: sft
push_to_hub: false
seed: 1
)")
                                .settings;
  Settings expected;
  expected.base_model = "m.gguf";
  expected.datasets = {{.path = "chats.jsonl"}};
  expected.learning_rate = 2e-4;
  expected.sample_packing = true;
  expected.sequence_len = 1024;
  expected.micro_batch_size = 2;
  expected.gradient_accumulation_steps = 8;
  expected.gradient_checkpointing = Checkpointing::full;
  expected.lr_scheduler = ScheduleKind::cosine_with_min_lr;
  expected.lr_scheduler_kwargs.min_lr_rate = 0.1;
  expected.warmup_steps = 20;
  expected.max_grad_norm = 0.3;
  expected.adam_beta2 = 0.95;
  expected.adapter = Adapter::lora;
  expected.lora_r = 32;
  expected.lora_target_modules = {"q_proj", "v_proj"};
  expected.peft_use_rslora = true;
  expected.evaluation.when = When::never;
  expected.saving = {When::steps, 100};
  expected.save_total_limit = 2;
  expected.logging_steps = 25;
  expected.output_dir = "sft";
  expected.seed = 1;
  EXPECT_EQ(settings, expected);
}

TEST(Styles, NestedGroups) {
  const Settings settings = parsed(R"(
model:
  path: llama.gguf
lora:
  r: 8
  alpha: 16
  dropout: 0.05
  target_modules: [q_proj, k_proj, v_proj, o_proj]
dataset:
  path: train.jsonl
  format: alpaca
  max_length: 512
training:
  batch_size: 4
  gradient_accumulation_steps: 4
  learning_rate: 2e-4
  lr_scheduler: linear
  warmup_steps: 10
  epochs: 3
  weight_decay: 0.01
  max_grad_norm: 1.0
  mixed_precision: bf16
  gradient_checkpointing: true
  save_steps: 250
  output_dir: out
)")
                                .settings;
  Settings expected;
  expected.base_model = "llama.gguf";
  expected.adapter = Adapter::lora;
  expected.lora_dropout = 0.05;
  expected.lora_target_modules = {"q_proj", "k_proj", "v_proj", "o_proj"};
  expected.datasets = {{.path = "train.jsonl", .type = ExampleType::alpaca}};
  expected.sequence_len = 512;
  expected.micro_batch_size = 4;
  expected.gradient_accumulation_steps = 4;
  expected.learning_rate = 2e-4;
  expected.lr_scheduler = ScheduleKind::linear;
  expected.warmup_steps = 10;
  expected.num_epochs = 3;
  expected.weight_decay = 0.01;
  expected.precision = Precision::bf16;
  expected.gradient_checkpointing = Checkpointing::full;
  expected.saving = {When::steps, 250};
  expected.output_dir = "out";
  EXPECT_EQ(settings, expected);
}

}  // namespace
}  // namespace quern::training
