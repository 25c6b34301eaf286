// The settings of a fine-tuning run: what a settings file means, checked.
//
// Text comes as JSON, in which the command line has turned YAML. Names are axolotl's; those of transformers and trl, LLaMA-Factory, mlx-lm
// and a nested form (`lora: {r: 8}`) are read as synonyms. Nothing is ignored in silence: a key is a setting, or is known to change
// nothing (then a note says so), or the file is refused. No file is opened here.
//
// Positions: parse_settings may get the place of each key path, and its errors then begin with it ("cfg.yaml:12: unknown key ..").
// A path has keys joined by dots, and the number of an item in brackets: "lora.r", "datasets[0].path".
#pragma once

#include "quern/graph/error.hpp"
#include "quern/training/data_options.hpp"
#include "quern/training/schedule.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::training {

enum class Adapter { none, lora, qlora };  // none: all weights are trained
enum class Optimizer { adamw, sgd };
enum class Precision { automatic, bf16, fp16, float32 };
enum class Checkpointing { none, full, selective };
enum class When { never, epoch, steps, parts };

/// How often something is done.
struct Interval {
  When when = When::epoch;
  double steps = 0;         // with When::steps: optimiser steps, or below 1 a share of the run
  std::uint32_t parts = 0;  // with When::parts: times an epoch
  bool operator==(const Interval&) const = default;
};

/// An entry of `datasets` or `test_datasets`. Empty field names stand for the usual ones of the type.
struct DatasetSettings {
  std::string path;  // a file or a folder, never empty
  ExampleType type = ExampleType::detect;
  std::string field_messages, field_instruction, field_input, field_output, field_system, field;
  std::map<std::string, std::string> message_property_mappings;  // our name (role, content, ..) -> the file's
  std::vector<std::string> roles_to_train = {"assistant"};
  TrainOnEos train_on_eos = TrainOnEos::turn;
  std::string message_field_training;  // empty: none
  bool mask_template_text = false;
  bool alpaca_prompt = false;  // prompt_style: alpaca, the text of 2023 instead of the model's template
  SpecialTokensInContent special_tokens_in_content = SpecialTokensInContent::text;
  bool skip_bad_lines = false;
  bool operator==(const DatasetSettings&) const = default;
};

struct Settings {
  std::string base_model;
  Adapter adapter = Adapter::none;
  std::uint32_t lora_r = 8;
  double lora_alpha = 16;
  double lora_dropout = 0;
  std::vector<std::string> lora_target_modules;  // peft's names, in the order of a layer; all seven where nothing is given
  bool peft_use_rslora = false;
  std::vector<std::uint32_t> peft_layers_to_transform;  // ascending; empty: all
  std::string lora_model_dir;                           // empty: a new adapter

  std::vector<DatasetSettings> datasets, test_datasets;  // may be empty: examples may come from memory
  double val_set_size = 0;                               // below 1 a share of the examples, else their count
  std::string chat_template;                             // a file, or a template's text; empty: the model's own
  std::optional<std::uint32_t> sequence_len;             // none: the least of 2,048 and the model's context
  ExcessLength excess_length_strategy = ExcessLength::drop;
  bool sample_packing = false;
  bool train_on_inputs = false;
  bool shuffle = true;
  std::uint64_t seed = 42;

  std::uint32_t micro_batch_size = 1;
  std::uint32_t gradient_accumulation_steps = 1;
  double num_epochs = 1;
  std::optional<std::uint64_t> max_steps;  // optimiser steps; wins over num_epochs

  double learning_rate = 0;
  ScheduleKind lr_scheduler = ScheduleKind::cosine;
  ScheduleOptions lr_scheduler_kwargs;
  std::uint64_t warmup_steps = 0;
  double warmup_ratio = 0;

  Optimizer optimizer = Optimizer::adamw;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double sgd_momentum = 0;
  double weight_decay = 0;
  double max_grad_norm = 1;  // 0: gradients are not clipped

  Precision precision = Precision::automatic;
  Checkpointing gradient_checkpointing = Checkpointing::none;

  Interval evaluation, saving;                    // evaluation plays no part without a validation set
  std::optional<std::uint32_t> save_total_limit;  // none: all are kept
  std::optional<std::uint32_t> early_stopping_patience;
  bool load_best_model_at_end = false;
  std::optional<double> loss_watchdog_threshold;
  std::uint32_t loss_watchdog_patience = 3;

  std::uint32_t logging_steps = 10;
  bool tensorboard = false;  // beside log.jsonl
  std::string output_dir = "./outputs";
  std::string resume_from_checkpoint;  // a folder; empty: none, or the last
  bool resume_last = false;            // from the last complete checkpoint of output_dir

  /// The schedule of a run of `steps` optimiser steps, its warm-up included.
  Schedule schedule(std::uint64_t steps) const;
  bool has_validation() const { return !test_datasets.empty() || val_set_size > 0; }
  bool operator==(const Settings&) const = default;
};

/// A mistake in the settings; its code is QUERN_INVALID_ARGUMENT.
class SettingsError : public Error {
 public:
  SettingsError(std::string path, const std::string& text) : Error(QUERN_INVALID_ARGUMENT, text), path_(std::move(path)) {}
  /// The path of the key as it was written; empty where the fault is no key's.
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// Key path -> where it was written, as errors show it: "cfg.yaml:12". The empty path stands for the file, for what is missing in it.
using Places = std::map<std::string, std::string, std::less<>>;

struct ParsedSettings {
  Settings settings;
  std::vector<std::string> notes;  // a sentence for each key that was given and changes nothing
};

/// `json` is an object. `overrides` are "key=value" or "datasets[0].path=value", applied in their order over the file, whatever synonym
/// the file uses; an empty value takes a key away. Throws SettingsError. Work and memory are bounded by the size of the text, of which at
/// most 1 MiB is taken.
ParsedSettings parse_settings(std::string_view json, std::span<const std::string> overrides = {}, const Places& places = {});

/// Places from a JSON object of texts, as they come over the C boundary. Throws SettingsError.
Places parse_places(std::string_view json);

/// One setting, for help and documentation.
struct SettingKey {
  std::string_view name;
  std::vector<std::string_view> synonyms;
  std::string takes;          // "a whole number from 1 to 65536"
  std::string_view standard;  // what holds where it is absent
  std::string_view meaning;
};

/// All settings in the order of the resolved file.
std::vector<SettingKey> setting_keys();

/// The keys of an entry of `datasets`.
std::vector<SettingKey> dataset_keys();

}  // namespace quern::training
