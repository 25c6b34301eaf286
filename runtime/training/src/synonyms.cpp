// Other names of our keys: those of transformers and trl, LLaMA-Factory, mlx-lm, older files of axolotl, and nested groups.
#include "setting_rows.hpp"

namespace quern::training {
namespace {

void invert(Entry& entry, std::string_view&) {
  if (const bool* on = entry.value.boolean()) entry.value = Json(!*on);
}

void from_percent(Entry& entry, std::string_view&) {
  if (const auto percent = entry.value.number()) entry.value = Json(*percent / 100);
}

void from_scale(Entry& entry, std::string_view&) { entry.times_rank = true; }

void from_use_peft(Entry& entry, std::string_view&) {
  if (const bool* on = entry.value.boolean()) entry.value = Json(std::string(*on ? "lora" : "none"));
}

void from_selective(Entry& entry, std::string_view&) {
  if (const bool* on = entry.value.boolean(); on != nullptr && *on) entry.value = Json(std::string("selective"));
}

void from_mixed_precision(Entry& entry, std::string_view& key) {
  const std::string* word = entry.value.text();
  const bool* on = entry.value.boolean();
  if (word != nullptr && (*word == "fp16" || *word == "float16")) key = "fp16";
  else if (word != nullptr && (*word == "bf16" || *word == "bfloat16")) key = "bf16";
  else if ((word != nullptr && (*word == "no" || *word == "fp32" || *word == "float32")) || (on != nullptr && !*on)) key = "float32";
  else refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes no, bf16 or fp16"));
  entry.value = Json(true);
}

void from_use_tensorboard(Entry& entry, std::string_view&) {
  if (const bool* on = entry.value.boolean()) entry.value = Json(std::string(*on ? "tensorboard" : "jsonl"));
}

const Synonym all_synonyms[] = {
    {"model_name_or_path", "base_model", nullptr},
    {"model", "base_model", nullptr},
    {"model.path", "base_model", nullptr},
    {"model.name", "base_model", nullptr},
    {"finetuning_type", "adapter", nullptr},
    {"fine_tune_type", "adapter", nullptr},
    {"use_peft", "adapter", from_use_peft},
    {"lora_rank", "lora_r", nullptr},
    {"r", "lora_r", nullptr},
    {"lora.r", "lora_r", nullptr},
    {"lora.rank", "lora_r", nullptr},
    {"lora_parameters.rank", "lora_r", nullptr},
    {"lora.alpha", "lora_alpha", nullptr},
    {"lora_parameters.alpha", "lora_alpha", nullptr},
    {"lora_parameters.scale", "lora_alpha", from_scale},
    {"lora.dropout", "lora_dropout", nullptr},
    {"lora_parameters.dropout", "lora_dropout", nullptr},
    {"lora.target_modules", "lora_target_modules", nullptr},
    {"lora_parameters.keys", "lora_target_modules", nullptr},
    {"lora_target", "lora_target_modules", nullptr},
    {"target_modules", "lora_target_modules", nullptr},
    {"use_rslora", "peft_use_rslora", nullptr},
    {"layers_to_transform", "peft_layers_to_transform", nullptr},
    {"lora_layers_to_transform", "peft_layers_to_transform", nullptr},
    {"adapter_name_or_path", "lora_model_dir", nullptr},
    {"resume_adapter_file", "lora_model_dir", nullptr},
    {"dataset", "datasets", nullptr},
    {"data", "datasets", nullptr},
    {"dataset_name", "datasets", nullptr},
    {"eval_dataset", "test_datasets", nullptr},
    {"val_split", "val_set_size", nullptr},
    {"val_size", "val_set_size", nullptr},
    {"dataset.val_split", "val_set_size", nullptr},
    {"validation_split_percentage", "val_set_size", from_percent},
    {"template", "chat_template", nullptr},
    {"max_length", "sequence_len", nullptr},
    {"max_seq_length", "sequence_len", nullptr},
    {"cutoff_len", "sequence_len", nullptr},
    {"dataset.max_length", "sequence_len", nullptr},
    {"packing", "sample_packing", nullptr},
    {"assistant_only_loss", "train_on_inputs", invert},
    {"mask_prompt", "train_on_inputs", invert},
    {"train_on_prompt", "train_on_inputs", nullptr},
    {"shuffle_dataset", "shuffle", nullptr},
    {"data_seed", "seed", nullptr},
    {"training.seed", "seed", nullptr},
    {"per_device_train_batch_size", "micro_batch_size", nullptr},
    {"batch_size", "micro_batch_size", nullptr},
    {"training.batch_size", "micro_batch_size", nullptr},
    {"grad_accumulation_steps", "gradient_accumulation_steps", nullptr},
    {"training.gradient_accumulation_steps", "gradient_accumulation_steps", nullptr},
    {"num_train_epochs", "num_epochs", nullptr},
    {"epochs", "num_epochs", nullptr},
    {"training.epochs", "num_epochs", nullptr},
    {"training.num_epochs", "num_epochs", nullptr},
    {"iters", "max_steps", nullptr},
    {"training.max_steps", "max_steps", nullptr},
    {"lr", "learning_rate", nullptr},
    {"training.learning_rate", "learning_rate", nullptr},
    {"lr_scheduler_type", "lr_scheduler", nullptr},
    {"training.lr_scheduler", "lr_scheduler", nullptr},
    {"training.warmup_steps", "warmup_steps", nullptr},
    {"training.warmup_ratio", "warmup_ratio", nullptr},
    {"optim", "optimizer", nullptr},
    {"training.optimizer", "optimizer", nullptr},
    {"adam_eps", "adam_epsilon", nullptr},
    {"training.weight_decay", "weight_decay", nullptr},
    {"training.max_grad_norm", "max_grad_norm", nullptr},
    {"bfloat16", "bf16", nullptr},
    {"float16", "fp16", nullptr},
    {"mixed_precision", "bf16", from_mixed_precision},
    {"training.mixed_precision", "bf16", from_mixed_precision},
    {"grad_checkpoint", "gradient_checkpointing", nullptr},
    {"selective_checkpointing", "gradient_checkpointing", from_selective},
    {"training.gradient_checkpointing", "gradient_checkpointing", nullptr},
    {"evaluation_strategy", "eval_strategy", nullptr},
    {"steps_per_eval", "eval_steps", nullptr},
    {"training.eval_steps", "eval_steps", nullptr},
    {"save_every", "save_steps", nullptr},
    {"training.save_steps", "save_steps", nullptr},
    {"steps_per_report", "logging_steps", nullptr},
    {"training.logging_steps", "logging_steps", nullptr},
    {"shuffle_merged_datasets", "shuffle", nullptr},
    {"use_tensorboard", "report_to", from_use_tensorboard},
    {"adapter_path", "output_dir", nullptr},
    {"training.output_dir", "output_dir", nullptr},
};

const Synonym synonyms_in_datasets[] = {
    {"format", "type", nullptr},
    {"file", "path", nullptr},
};

}  // namespace

std::span<const Synonym> setting_synonyms() { return all_synonyms; }
std::span<const Synonym> dataset_synonyms() { return synonyms_in_datasets; }

}  // namespace quern::training
