// Every setting: what it takes, and how it is read into Settings and shown again. The order is that of the resolved file; rows that
// build on another's value stand behind it.
#include "setting_rows.hpp"

#include "quern/base/nearest.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <cmath>

namespace quern::training {
namespace {

constexpr double most = std::numeric_limits<double>::max();

constexpr Choice<Adapter> adapters[] = {
    {"none", Adapter::none}, {"lora", Adapter::lora}, {"qlora", Adapter::qlora}, {"full", Adapter::none}};
constexpr Choice<ExcessLength> overlong[] = {
    {"drop", ExcessLength::drop}, {"truncate", ExcessLength::truncate}, {"raise", ExcessLength::raise}};
constexpr Choice<ScheduleKind> schedules[] = {{"constant", ScheduleKind::constant},
                                              {"constant_with_warmup", ScheduleKind::constant_with_warmup},
                                              {"linear", ScheduleKind::linear},
                                              {"cosine", ScheduleKind::cosine},
                                              {"cosine_with_restarts", ScheduleKind::cosine_with_restarts},
                                              {"polynomial", ScheduleKind::polynomial},
                                              {"cosine_with_min_lr", ScheduleKind::cosine_with_min_lr},
                                              {"inverse_sqrt", ScheduleKind::inverse_sqrt}};
constexpr Choice<Optimizer> optimizers[] = {{"adamw", Optimizer::adamw},
                                            {"sgd", Optimizer::sgd},
                                            {"adamw_torch", Optimizer::adamw},
                                            {"adamw_torch_fused", Optimizer::adamw},
                                            {"adamw_hf", Optimizer::adamw}};
constexpr Choice<When> strategies[] = {{"no", When::never}, {"steps", When::steps}, {"epoch", When::epoch}};

constexpr std::string_view modules[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

bool truth(const Entry& entry) { return *entry.value.boolean(); }
double number(const Entry& entry) { return *entry.value.number(); }
std::uint64_t count(const Entry& entry) { return *whole(entry.value); }
std::uint32_t small(const Entry& entry) { return static_cast<std::uint32_t>(count(entry)); }
const std::string& text(const Entry& entry) { return *entry.value.text(); }

Json shown(const std::string& value) { return value.empty() ? Json() : Json(value); }
Json shown(std::uint64_t value) { return Json(value); }
template <typename T>
Json shown(const std::optional<T>& value) {
  if (!value) return Json();
  if constexpr (std::is_integral_v<T>) return Json(std::uint64_t{*value});
  else return Json(*value);
}
Json shown(const std::vector<std::string>& values) {
  Json::List list;
  for (const std::string& one : values) list.emplace_back(one);
  return Json(std::move(list));
}

/// A count, or a share below 1: a number from 1 on is whole.
double count_or_share(const Entry& entry) {
  if (number(entry) >= 1 && !whole(entry.value))
    refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes a whole number, or a share below 1"));
  return number(entry);
}

void read_adapter(const Entry& entry, Settings& to) {
  if (const std::string* word = entry.value.text(); word != nullptr && *word == "dora")
    refuse(entry, concat("'", entry.path, "' is dora, which is not supported yet; take lora"));
  to.adapter = chosen(entry, adapters);
}

void read_modules(const Entry& entry, Settings& to) {
  to.lora_target_modules.clear();
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(to.lora_target_modules, name) == to.lora_target_modules.end()) to.lora_target_modules.emplace_back(name);
  };
  for (const std::string& word : words(entry.value)) {
    const std::string name = word.substr(word.find_last_of('.') + 1);  // mlx-lm: self_attn.q_proj
    if (name == "all-linear" || name == "all") {
      for (const std::string_view one : modules) add(one);
    } else if (std::ranges::find(modules, name) != std::end(modules)) {
      add(name);
    } else if (name == "embed_tokens" || name == "lm_head") {
      refuse(entry, concat("'", entry.path, "' has ", name, "; adapters of embeddings and heads are not supported yet"));
    } else {
      const std::vector<std::string> names(std::begin(modules), std::end(modules));
      refuse(entry, concat("'", entry.path, "' has ", in_quotes(word), did_you_mean(name, names),
                           "; it takes q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, all-linear"));
    }
  }
  if (to.lora_target_modules.empty()) refuse(entry, concat("'", entry.path, "' is an empty list; name at least one matrix"));
  std::ranges::sort(to.lora_target_modules, {}, [](const std::string& name) { return std::ranges::find(modules, name) - modules; });
}

void read_linear(const Entry& entry, Settings& to) {
  if (!truth(entry)) return;
  if (!to.lora_target_modules.empty() && to.lora_target_modules.size() < std::size(modules))
    refuse(entry, concat("'", entry.path, "' asks for all matrices and lora_target_modules for some; keep one of the two"));
  to.lora_target_modules.assign(std::begin(modules), std::end(modules));
}

void read_layers(const Entry& entry, Settings& to) {
  std::vector<std::uint32_t>& layers = to.peft_layers_to_transform;
  if (const Json::List* list = entry.value.list())
    for (const Json& one : *list) layers.push_back(static_cast<std::uint32_t>(*whole(one)));
  else layers.push_back(small(entry));
  std::ranges::sort(layers);
  layers.erase(std::ranges::unique(layers).begin(), layers.end());
  if (layers.empty()) refuse(entry, concat("'", entry.path, "' is an empty list; leave the key out for all layers"));
}

Json show_layers(const Settings& of) {
  if (of.peft_layers_to_transform.empty()) return Json();
  Json::List list;
  for (const std::uint32_t layer : of.peft_layers_to_transform) list.emplace_back(std::uint64_t{layer});
  return Json(std::move(list));
}

void read_template(const Entry& entry, Settings& to) {
  const std::string& value = text(entry);
  const bool is_text = value.find("{{") != std::string::npos || value.find("{%") != std::string::npos;
  const bool is_file = value.find('/') != std::string::npos || value.ends_with(".jinja") || value.ends_with(".j2") ||
                       value.ends_with(".txt");
  if (value == "tokenizer_default" || value == "jinja") to.chat_template.clear();
  else if (is_text || is_file) to.chat_template = value;
  else
    refuse(entry, concat("'", entry.path, "' is ", described(entry.value),
                         "; templates are not chosen by name: leave it out for the model's own, or give a .jinja file"));
}

void read_schedule_options(const Entry& entry, Settings& to) {
  ScheduleOptions& options = to.lr_scheduler_kwargs;
  struct Option {
    std::string_view name;
    std::optional<double>& value;
    Bounds bounds;
  };
  const Option known[] = {{"num_cycles", options.num_cycles, {0, 1e6, true}},
                          {"power", options.power, {0, 100, true}},
                          {"lr_end", options.lr_end, {0, 1000}},
                          {"min_lr", options.min_lr, {0, 1000}},
                          {"min_lr_rate", options.min_lr_rate, {0, 1}},
                          {"timescale", options.timescale, {1, 1e12}}};
  for (const Json::Member& member : *entry.value.members()) {
    Entry one{concat(entry.path, ".", member.name), entry.place, member.value};
    const auto* option = std::ranges::find(known, member.name, &Option::name);
    if (option == std::end(known)) {
      std::vector<std::string> names;
      for (const Option& row : known) names.emplace_back(row.name);
      refuse(one, concat("unknown key ", in_quotes(one.path), did_you_mean(member.name, names),
                         "; the keys here are num_cycles, power, lr_end, min_lr, min_lr_rate, timescale"));
    }
    if (option->value) refuse(one, concat("'", one.path, "' is given twice"));
    if (member.value.is_null()) continue;
    check_value(one, Takes::number, option->bounds, "");
    option->value = number(one);
  }
}

Json show_schedule_options(const Settings& of) {
  const ScheduleOptions& options = of.lr_scheduler_kwargs;
  Json::Members members;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) members.push_back({name, Json(*value)});
  };
  add("num_cycles", options.num_cycles);
  add("power", options.power);
  add("lr_end", options.lr_end);
  add("min_lr", options.min_lr);
  add("min_lr_rate", options.min_lr_rate);
  add("timescale", options.timescale);
  return members.empty() ? Json() : Json(std::move(members));
}

void read_warmup(const Entry& entry, Settings& to) {
  const double value = count_or_share(entry);
  if (value < 1) to.warmup_ratio = value;
  else to.warmup_steps = count(entry);
}

void read_optimizer(const Entry& entry, Settings& to) {
  if (const std::string* word = entry.value.text())
    if (word->starts_with("paged_") || word->ends_with("_8bit") || word->ends_with("_4bit"))
      refuse(entry, concat("'", entry.path, "' is ", in_quotes(*word), "; small or paged moments are not supported yet: take adamw"));
  to.optimizer = chosen(entry, optimizers);
}

void read_bf16(const Entry& entry, Settings& to) {
  if (const bool* on = entry.value.boolean()) to.precision = *on ? Precision::bf16 : Precision::float32;
  else if (entry.value.text() == nullptr || *entry.value.text() != "auto")
    refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes auto, true or false"));
}

void read_checkpointing(const Entry& entry, Settings& to) {
  const std::string* word = entry.value.text();
  if (const bool* on = entry.value.boolean()) to.gradient_checkpointing = *on ? Checkpointing::full : Checkpointing::none;
  else if (word != nullptr && *word == "selective") to.gradient_checkpointing = Checkpointing::selective;
  else if (word != nullptr && word->starts_with("offload"))
    refuse(entry, concat("'", entry.path, "' is ", in_quotes(*word), "; activations are not offloaded yet: take true"));
  else refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes false, true or selective"));
}

Json show_checkpointing(const Settings& of) {
  if (of.gradient_checkpointing == Checkpointing::selective) return Json(std::string("selective"));
  return Json(of.gradient_checkpointing == Checkpointing::full);
}

void read_report(const Entry& entry, Settings& to) {
  to.tensorboard = false;
  for (const std::string& word : words(entry.value)) {
    if (word == "tensorboard") to.tensorboard = true;
    else if (word != "jsonl" && word != "none")
      refuse(entry,
             concat("'", entry.path, "' has ", in_quotes(word), "; it takes jsonl and tensorboard, whose files other programs read"));
  }
}

Json show_report(const Settings& of) {
  return shown(of.tensorboard ? std::vector<std::string>{"jsonl", "tensorboard"} : std::vector<std::string>{"jsonl"});
}

void read_resume(const Entry& entry, Settings& to) {
  if (const bool* on = entry.value.boolean()) to.resume_last = *on;
  else if (entry.value.text() != nullptr && !entry.value.text()->empty()) to.resume_from_checkpoint = text(entry);
  else refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes a folder, or true for the last checkpoint"));
}

template <Interval Settings::*part>
void read_strategy(const Entry& entry, Settings& to) {
  if (const std::string* word = entry.value.text(); word != nullptr && *word == "best")
    refuse(entry, concat("'", entry.path, "' is best; save each epoch and set load_best_model_at_end"));
  (to.*part).when = chosen(entry, strategies);
}
template <Interval Settings::*part>
Json show_strategy(const Settings& of) {
  return name_of((of.*part).when, strategies);
}
template <Interval Settings::*part>
void read_interval(const Entry& entry, Settings& to) {
  (to.*part).when = When::steps;
  (to.*part).steps = count_or_share(entry);
}
template <Interval Settings::*part>
Json show_interval(const Settings& of) {
  return (of.*part).when == When::steps ? Json((of.*part).steps) : Json();
}
template <Interval Settings::*part>
void read_parts(const Entry& entry, Settings& to) {
  (to.*part).when = count(entry) == 0 ? When::never : When::parts;
  (to.*part).parts = small(entry);
}
template <Interval Settings::*part>
Json show_parts(const Settings& of) {
  return (of.*part).when == When::parts ? shown(std::uint64_t{(of.*part).parts}) : Json();
}

Json nothing(const Settings&) { return Json(); }

// A row that reads a value into a member and shows it.
#define READ(member, with) [](const Entry& entry, Settings& to) { to.member = with(entry); }
#define SHOW(member) [](const Settings& of) { return shown(of.member); }
#define SHOW_PLAIN(member) [](const Settings& of) { return Json(of.member); }
#define SHOW_NAME(member, names) [](const Settings& of) { return name_of(of.member, names); }

constexpr std::string_view one_seven = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj, or all-linear";
constexpr std::string_view of_validation = "the end of each epoch, where there is a validation set";

const SettingRow all_rows[] = {
    {"base_model", Takes::text, {}, "", "required", "GGUF file, or a name as of quern pull", READ(base_model, text), SHOW(base_model)},
    {"adapter",
     Takes::choice,
     {},
     "none, lora, qlora",
     "none",
     "none trains all weights; qlora demands a quantised base",
     read_adapter,
     SHOW_NAME(adapter, adapters)},
    {"lora_r", Takes::count, {1, 65536}, "", "8", "rank", READ(lora_r, small), SHOW(lora_r)},
    {"lora_alpha",
     Takes::number,
     {0, 1e6, true},
     "",
     "16",
     "the adapter is scaled by alpha / r",
     [](const Entry& entry, Settings& to) { to.lora_alpha = number(entry) * (entry.times_rank ? to.lora_r : 1); },
     SHOW_PLAIN(lora_alpha)},
    {"lora_dropout",
     Takes::number,
     {0, 1, false, true},
     "",
     "0",
     "of the adapter's input",
     READ(lora_dropout, number),
     SHOW_PLAIN(lora_dropout)},
    {"lora_target_modules", Takes::words, {}, "", "all seven", one_seven, read_modules, SHOW(lora_target_modules)},
    {"lora_target_linear", Takes::boolean, {}, "", "false", "true: all seven", read_linear, nothing},
    {"peft_use_rslora",
     Takes::boolean,
     {},
     "",
     "false",
     "the adapter is scaled by alpha / sqrt(r)",
     READ(peft_use_rslora, truth),
     SHOW_PLAIN(peft_use_rslora)},
    {"peft_layers_to_transform", Takes::numbers, {0, 65535}, "", "all", "layers that get adapters, from 0", read_layers, show_layers},
    {"lora_model_dir",
     Takes::text,
     {},
     "",
     "none",
     "adapter to start from, its weights alone",
     READ(lora_model_dir, text),
     SHOW(lora_model_dir)},

    {"val_set_size",
     Takes::number,
     {0, 1e9},
     "",
     "0",
     "a share of the examples, or from 1 on their count",
     READ(val_set_size, count_or_share),
     SHOW_PLAIN(val_set_size)},
    {"chat_template", Takes::text, {}, "", "tokenizer_default", "a .jinja file or the template's text", read_template, SHOW(chat_template)},
    {"chat_template_jinja", Takes::text, {}, "", "none", "the same, under axolotl's other name", read_template, nothing},
    {"sequence_len",
     Takes::count,
     {2, 1 << 24},
     "",
     "the least of 2048 and the model's context",
     "tokens of an example at most",
     READ(sequence_len, small),
     SHOW(sequence_len)},
    {"excess_length_strategy",
     Takes::choice,
     {},
     "drop, truncate, raise",
     "drop",
     "what happens to longer examples",
     READ(excess_length_strategy, [](const Entry& e) { return chosen(e, overlong); }),
     SHOW_NAME(excess_length_strategy, overlong)},
    {"sample_packing",
     Takes::boolean,
     {},
     "",
     "false",
     "several examples share a row budget",
     READ(sample_packing, truth),
     SHOW_PLAIN(sample_packing)},
    {"train_on_inputs",
     Takes::boolean,
     {},
     "",
     "false",
     "the loss counts prompts too",
     READ(train_on_inputs, truth),
     SHOW_PLAIN(train_on_inputs)},
    {"shuffle", Takes::boolean, {}, "", "true", "a new order in each epoch", READ(shuffle, truth), SHOW_PLAIN(shuffle)},
    {"seed", Takes::count, {0, most}, "", "42", "of order, split, initial weights and dropout", READ(seed, count), SHOW(seed)},

    {"micro_batch_size", Takes::count, {1, 65536}, "", "1", "examples at once", READ(micro_batch_size, small), SHOW(micro_batch_size)},
    {"gradient_accumulation_steps",
     Takes::count,
     {1, 1e6},
     "",
     "1",
     "micro-batches of a step",
     READ(gradient_accumulation_steps, small),
     SHOW(gradient_accumulation_steps)},
    {"num_epochs", Takes::number, {0, 1e6, true}, "", "1", "", READ(num_epochs, number), SHOW_PLAIN(num_epochs)},
    {"max_steps", Takes::count, {1, 1e12}, "", "none", "optimiser steps; wins over num_epochs", READ(max_steps, count), SHOW(max_steps)},

    {"learning_rate",
     Takes::number,
     {0, 1000, true},
     "",
     "required",
     "the highest",
     READ(learning_rate, number),
     SHOW_PLAIN(learning_rate)},
    {"lr_scheduler",
     Takes::choice,
     {},
     "constant, constant_with_warmup, linear, cosine, cosine_with_restarts, polynomial, cosine_with_min_lr, inverse_sqrt",
     "cosine",
     "",
     READ(lr_scheduler, [](const Entry& e) { return chosen(e, schedules); }),
     SHOW_NAME(lr_scheduler, schedules)},
    {"lr_scheduler_kwargs",
     Takes::map,
     {},
     "",
     "none",
     "num_cycles, power, lr_end, min_lr, min_lr_rate, timescale",
     read_schedule_options,
     show_schedule_options},
    {"cosine_min_lr_ratio",
     Takes::number,
     {0, 1},
     "",
     "none",
     "where the cosine ends, as a share of learning_rate",
     [](const Entry& entry, Settings& to) {
       if (to.lr_scheduler != ScheduleKind::cosine)
         refuse(entry, concat("'", entry.path, "' belongs to the schedule cosine; give lr_scheduler: cosine, or lr_scheduler_kwargs"));
       to.lr_scheduler = ScheduleKind::cosine_with_min_lr;
       to.lr_scheduler_kwargs.min_lr_rate = number(entry);
     },
     nothing},
    {"warmup_steps", Takes::number, {0, 1e12}, "", "0", "or a share of all steps", read_warmup, SHOW(warmup_steps)},
    {"warmup_ratio", Takes::number, {0, 1}, "", "0", "a share of all steps", READ(warmup_ratio, number), SHOW_PLAIN(warmup_ratio)},

    {"optimizer", Takes::choice, {}, "adamw, sgd", "adamw", "", read_optimizer, SHOW_NAME(optimizer, optimizers)},
    {"adam_beta1", Takes::number, {0, 1, false, true}, "", "0.9", "", READ(adam_beta1, number), SHOW_PLAIN(adam_beta1)},
    {"adam_beta2", Takes::number, {0, 1, false, true}, "", "0.999", "", READ(adam_beta2, number), SHOW_PLAIN(adam_beta2)},
    {"adam_epsilon", Takes::number, {0, 1, true}, "", "1e-8", "", READ(adam_epsilon, number), SHOW_PLAIN(adam_epsilon)},
    {"sgd_momentum", Takes::number, {0, 1, false, true}, "", "0", "of sgd", READ(sgd_momentum, number), SHOW_PLAIN(sgd_momentum)},
    {"weight_decay", Takes::number, {0, 1}, "", "0", "", READ(weight_decay, number), SHOW_PLAIN(weight_decay)},
    {"max_grad_norm",
     Takes::number,
     {0, most},
     "",
     "1",
     "0: gradients are not clipped",
     READ(max_grad_norm, number),
     SHOW_PLAIN(max_grad_norm)},

    {"bf16",
     Takes::anything,
     {},
     "auto, true or false",
     "auto",
     "activations and products in bf16; auto: on graphics cards",
     read_bf16,
     [](const Settings& of) {
       return of.precision == Precision::automatic ? Json(std::string("auto")) : Json(of.precision == Precision::bf16);
     }},
    {"fp16",
     Takes::boolean,
     {},
     "",
     "false",
     "the same in f16, with a loss scale",
     [](const Entry& entry, Settings& to) {
       if (truth(entry)) to.precision = Precision::fp16;
     },
     [](const Settings& of) { return Json(of.precision == Precision::fp16); }},
    {"float32",
     Takes::boolean,
     {},
     "",
     "false",
     "exact: all in f32",
     [](const Entry& entry, Settings& to) {
       if (truth(entry)) to.precision = Precision::float32;
     },
     [](const Settings& of) { return Json(of.precision == Precision::float32); }},
    {"gradient_checkpointing",
     Takes::anything,
     {},
     "false, true or selective",
     "false",
     "true: the inputs of layers are kept, the rest is made again",
     read_checkpointing,
     show_checkpointing},

    {"eval_strategy",
     Takes::choice,
     {},
     "no, steps, epoch",
     of_validation,
     "",
     read_strategy<&Settings::evaluation>,
     show_strategy<&Settings::evaluation>},
    {"eval_steps",
     Takes::number,
     {0, 1e12, true},
     "",
     "none",
     "optimiser steps, or a share of the run",
     read_interval<&Settings::evaluation>,
     show_interval<&Settings::evaluation>},
    {"evals_per_epoch", Takes::count, {0, 1e6}, "", "none", "", read_parts<&Settings::evaluation>, show_parts<&Settings::evaluation>},
    {"save_strategy",
     Takes::choice,
     {},
     "no, steps, epoch",
     "the end of each epoch",
     "",
     read_strategy<&Settings::saving>,
     show_strategy<&Settings::saving>},
    {"save_steps",
     Takes::number,
     {0, 1e12, true},
     "",
     "none",
     "optimiser steps, or a share of the run",
     read_interval<&Settings::saving>,
     show_interval<&Settings::saving>},
    {"saves_per_epoch", Takes::count, {0, 1e6}, "", "none", "", read_parts<&Settings::saving>, show_parts<&Settings::saving>},
    {"save_total_limit",
     Takes::count,
     {1, 1e6},
     "",
     "all",
     "checkpoints that are kept",
     READ(save_total_limit, small),
     SHOW(save_total_limit)},
    {"early_stopping_patience",
     Takes::count,
     {1, 1e6},
     "",
     "off",
     "evaluations without a better validation loss",
     READ(early_stopping_patience, small),
     SHOW(early_stopping_patience)},
    {"load_best_model_at_end",
     Takes::boolean,
     {},
     "",
     "false",
     "the result is the checkpoint with the least validation loss",
     READ(load_best_model_at_end, truth),
     SHOW_PLAIN(load_best_model_at_end)},
    {"metric_for_best_model",
     Takes::choice,
     {},
     "eval_loss, loss",
     "eval_loss",
     "the validation loss",
     [](const Entry& entry, Settings&) {
       constexpr Choice<int> metrics[] = {{"eval_loss", 0}, {"loss", 0}};
       chosen(entry, metrics);
     },
     [](const Settings&) { return Json(std::string("eval_loss")); }},
    {"loss_watchdog_threshold",
     Takes::number,
     {0, most, true},
     "",
     "off",
     "a loss above it ends the run",
     READ(loss_watchdog_threshold, number),
     SHOW(loss_watchdog_threshold)},
    {"loss_watchdog_patience",
     Takes::count,
     {1, 1e6},
     "",
     "3",
     "steps above the threshold, one behind another",
     READ(loss_watchdog_patience, small),
     SHOW(loss_watchdog_patience)},

    {"logging_steps", Takes::count, {1, 1e9}, "", "10", "", READ(logging_steps, small), SHOW(logging_steps)},
    {"report_to", Takes::words, {}, "", "jsonl", "jsonl, tensorboard", read_report, show_report},
    {"output_dir", Takes::text, {}, "", "./outputs", "", READ(output_dir, text), SHOW(output_dir)},
    {"resume_from_checkpoint",
     Takes::anything,
     {},
     "a folder, true or false",
     "none",
     "a folder, or true: the last complete one",
     read_resume,
     [](const Settings& of) { return of.resume_last ? Json(true) : shown(of.resume_from_checkpoint); }},
};

#undef READ
#undef SHOW
#undef SHOW_PLAIN
#undef SHOW_NAME

}  // namespace

std::span<const SettingRow> setting_rows() { return all_rows; }

}  // namespace quern::training
