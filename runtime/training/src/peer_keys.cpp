// Keys of other programs that are no settings of ours: those that change nothing here, and those that would change the result.
#include "setting_rows.hpp"

namespace quern::training {
namespace {

constexpr std::string_view attention = "attention is exact in every form, and the device's plugin chooses the kernel";
constexpr std::string_view no_loader = "examples are read, tokenised and packed before the first step";
constexpr std::string_view as_stored = "the base is trained on as its file stores it";
constexpr std::string_view one_device = "a run has one device for now";
constexpr std::string_view later = "it is not supported yet; leave it out";
constexpr std::string_view no_service = "nothing is sent to services; report_to: tensorboard writes files that they import";
constexpr std::string_view no_upload = "nothing is uploaded; output_dir holds PEFT files that you can upload";
constexpr std::string_view from_model = "the model's file decides it; leave it out";
constexpr std::string_view no_preference = "preference and reward training are not supported yet; leave it out for supervised training";
constexpr std::string_view whole_batch = "validation does not depend on the size of its batches";
constexpr std::string_view own_log = "log.jsonl in output_dir has each logged step";

const PeerKey all_peer_keys[] = {
    // Nothing changes.
    {"flash_attention", "*", attention},
    {"flash_attn", "*", attention},
    {"attn_implementation", "*", attention},
    {"sdp_attention", "*", attention},
    {"xformers_attention", "*", attention},
    {"eager_attention", "*", attention},
    {"pad_to_sequence_len", "*", "rows are not padded"},
    {"pad_to_multiple_of", "*", "rows are not padded"},
    {"padding_free", "*", "rows are not padded"},
    {"special_tokens.pad_token", "*", "rows are not padded"},
    {"pad_token", "*", "rows are not padded"},
    {"group_by_length", "*", "rows are not padded, so that equal lengths gain nothing"},
    {"dataloader_*", "*", no_loader},
    {"dataset_prepared_path", "*", no_loader},
    {"dataset_processes", "*", no_loader},
    {"dataset_num_proc", "*", no_loader},
    {"preprocessing_num_workers", "*", no_loader},
    {"overwrite_cache", "*", no_loader},
    {"remove_unused_columns", "*", no_loader},
    {"tokenizer_type", "*", "the tokenizer is the model file's"},
    {"model_type", "*", "the architecture is the model file's"},
    {"is_llama_derived_model", "*", "the architecture is the model file's"},
    {"load_in_4bit", "*", as_stored},
    {"load_in_8bit", "*", as_stored},
    {"bnb_*", "*", as_stored},
    {"quantization_bit", "*", as_stored},
    {"quantization_method", "*", as_stored},
    {"dtype", "*", as_stored},
    {"torch_dtype", "*", as_stored},
    {"model_dtype", "*", as_stored},
    {"tf32", "*", "float32: true computes in f32 without it"},
    {"torch_compile", "*", "steps are always compiled"},
    {"lora_mlp_kernel", "*", "the device's plugin chooses the kernel"},
    {"lora_qkv_kernel", "*", "the device's plugin chooses the kernel"},
    {"lora_o_kernel", "*", "the device's plugin chooses the kernel"},
    {"liger_*", "*", "the device's plugin chooses the kernel"},
    {"use_liger_kernel", "*", "the device's plugin chooses the kernel"},
    {"enable_liger_kernel", "*", "the device's plugin chooses the kernel"},
    {"gradient_checkpointing_kwargs", "*", "checkpointing is equal in bits to its absence"},
    {"eval_sample_packing", "*", whole_batch},
    {"eval_batch_size", "*", whole_batch},
    {"per_device_eval_batch_size", "*", whole_batch},
    {"val_batches", "*", "the whole validation set is used"},
    {"eval_accumulation_steps", "*", whole_batch},
    {"average_tokens_across_devices", "*", "the loss is always normalised by the whole batch"},
    {"logging_strategy", "steps", "logging_steps says how often"},
    {"logging_first_step", "*", own_log},
    {"logging_dir", "*", own_log},
    {"log_level", "*", own_log},
    {"disable_tqdm", "*", own_log},
    {"include_tokens_per_second", "*", own_log},
    {"include_num_input_tokens_seen", "*", own_log},
    {"run_name", "*", own_log},
    {"plot_loss", "*", "loss.svg is always written"},
    {"overwrite_output_dir", "*", "files of an earlier run are never mixed with those of a new one"},
    {"save_safetensors", "*", "weights are always written as safetensors"},
    {"save_only_model", "*", "checkpoints have the optimiser's state"},
    {"save_first_step", "*", "a checkpoint is tried before the run needs one"},
    {"ddp_*", "*", one_device},
    {"local_rank", "*", one_device},
    {"strict", "*", "unknown keys are always refused"},
    {"do_train", "=true", "quern train always trains; leave it out"},
    {"do_eval", "*", "a validation set is evaluated where there is one"},
    {"train", "=true", "quern train always trains; leave it out"},
    {"test_batches", "*", "quern eval measures a test set"},

    // Values that change nothing, and others that would.
    {"trust_remote_code", "", "code of a model's folder is never run; leave it out"},
    {"stage", "sft", no_preference},
    {"training_mode", "normal", no_preference},
    {"test", "", "quern eval measures a test set after the run"},
    {"greater_is_better", "", "a smaller validation loss is better; leave it out"},
    {"completion_only_loss", "=true", "give train_on_inputs: true"},
    {"num_layers", "-1", "give peft_layers_to_transform, a list of layers"},
    {"label_smoothing_factor", "0", later},
    {"auto_resume_from_checkpoints", "", "give resume_from_checkpoint: true"},
    {"auto_find_batch_size", "", "quern estimate --train names the batch that fits"},

    // The result would be another.
    {"deepspeed*", "", one_device},
    {"fsdp*", "", one_device},
    {"tensor_parallel_size", "1", one_device},
    {"context_parallel_size", "1", one_device},
    {"sequence_parallel_degree", "1", one_device},
    {"wandb_*", "", no_service},
    {"use_wandb", "", no_service},
    {"mlflow_*", "", no_service},
    {"comet_*", "", no_service},
    {"use_comet", "", no_service},
    {"swanlab_*", "", no_service},
    {"use_swanlab", "", no_service},
    {"hub_*", "", no_upload},
    {"push_to_hub*", "", no_upload},
    {"rl", "", no_preference},
    {"rl_beta", "", no_preference},
    {"dpo_*", "", no_preference},
    {"pref_*", "", no_preference},
    {"reward_model*", "", no_preference},
    {"peft_use_dora", "", "DoRA is not supported yet; leave it out, or set peft_use_rslora"},
    {"use_dora", "", "DoRA is not supported yet; leave it out, or set use_rslora"},
    {"lora_modules_to_save", "", "whole modules beside adapters are not supported yet; leave it out"},
    {"modules_to_save", "", "whole modules beside adapters are not supported yet; leave it out"},
    {"additional_target", "", "whole modules beside adapters are not supported yet; leave it out"},
    {"loraplus_*", "", "one rate serves A and B for now; leave it out"},
    {"lora_rank_pattern", "", "one rank serves all matrices for now; give lora_r"},
    {"rank_pattern", "", "one rank serves all matrices for now; give lora_r"},
    {"lora_alpha_pattern", "", "one alpha serves all matrices for now; give lora_alpha"},
    {"alpha_pattern", "", "one alpha serves all matrices for now; give lora_alpha"},
    {"lora_fan_in_fan_out", "", from_model},
    {"unfrozen_parameters", "", "give lora_target_modules, or adapter: none for all weights"},
    {"freeze_*", "", "give lora_target_modules and peft_layers_to_transform"},
    {"relora*", "", later},
    {"lisa_*", "", later},
    {"galore_*", "", later},
    {"use_galore", "", later},
    {"use_badam", "", later},
    {"qat", "", later},
    {"neftune_noise_alpha", "0", later},
    {"pure_bf16", "", "bf16: true keeps f32 masters, without which small updates are lost"},
    {"lr_schedule", "", "give lr_scheduler, lr_scheduler_kwargs and warmup_steps"},
    {"optim_args", "", "give adam_beta1, adam_beta2, adam_epsilon, or sgd_momentum"},
    {"optimizer_config", "", "give adam_beta1, adam_beta2, adam_epsilon, weight_decay"},
    {"dataset_text_field", "text", "give field in the entry of datasets"},
    {"dataset_train_split", "train", "give datasets: a list of files"},
    {"dataset_test_split", "test", "give test_datasets: a list of files"},
    {"dataset_config", "", "give datasets: a list of files"},
    {"hf_dataset", "", "give datasets: a list of files"},
    {"dataset_dir", "", "write whole paths in datasets"},
    {"max_samples", "", "cut the file; datasets are read whole"},
    {"pretraining_dataset", "", "give datasets with type: completion"},
    {"streaming", "", "datasets are read whole; leave it out"},
    {"curriculum_sampling", "", "give shuffle: false for the order of the file"},
    {"special_tokens.*", "", from_model},
    {"tokens", "", from_model},
    {"added_tokens_overrides", "", from_model},
    {"eos_token", "", from_model},
    {"resize_token_embeddings_to_32x", "", from_model},
    {"rope_scaling", "", from_model},
    {"rope_theta", "", from_model},
    {"overrides_of_model_config", "", from_model},
    {"s2_attention", "", later},
    {"plugins", "", later},
};

constexpr std::string_view one_file = "give path: a .jsonl or .json file, or a folder with train.jsonl";

const PeerKey peer_keys_in_datasets[] = {
    {"split", "train", "a file is read whole; give path the file of the split"},
    {"ds_type", "*", "the file's name and content say it"},
    {"shards", "1", "cut the file; datasets are read whole"},
    {"data_files", "", one_file},
    {"name", "", one_file},
    {"revision", "", one_file},
    {"trust_remote_code", "", "code of a data set is never run; leave it out"},
    {"conversation", "", "the model's template is used; leave it out"},
    {"roles", "", "roles are human and user, gpt and assistant, system, tool; rename others in the file"},
};

}  // namespace

std::span<const PeerKey> peer_keys() { return all_peer_keys; }
std::span<const PeerKey> peer_dataset_keys() { return peer_keys_in_datasets; }

}  // namespace quern::training
