// Settings that hold only together, or only apart.
#include "setting_rows.hpp"

namespace quern::training {
namespace {

const Entry* find(const Given& given, std::string_view key) {
  const auto found = given.find(key);
  return found == given.end() ? nullptr : &found->second;
}

void require(const Given& given, const std::string& file, std::string_view key, std::string_view example) {
  if (find(given, key) == nullptr) refuse({std::string(key), file, Json()}, concat("'", key, "' is missing; give ", example));
}

void forbid_both(const Given& given, std::string_view one, std::string_view other) {
  const Entry *first = find(given, one), *second = find(given, other);
  if (first != nullptr && second != nullptr)
    refuse(*second, concat("'", second->path, "' and '", first->path, "' contradict each other; keep one of the two"));
}

bool is_true(const Entry* entry) { return entry != nullptr && entry->value.boolean() != nullptr && *entry->value.boolean(); }

void check_adapter(const Settings& settings, const Given& given) {
  if (settings.adapter != Adapter::none) return;
  for (const auto& [key, entry] : given) {
    if (!key.starts_with("lora_") && !key.starts_with("peft_")) continue;
    if (const bool* on = entry.value.boolean(); on != nullptr && !*on) continue;
    refuse(entry, concat("'", entry.path, "' is given, but all weights are trained; give adapter: lora, or leave the key out"));
  }
}

void check_precision(const Given& given) {
  const std::string_view keys[] = {"bf16", "fp16", "float32"};
  const Entry* first = nullptr;
  for (const std::string_view key : keys) {
    const Entry* entry = find(given, key);
    if (!is_true(entry)) continue;
    if (first != nullptr)
      refuse(*entry, concat("'", entry->path, "' and '", first->path, "' are both true; a run has one precision: keep one of the two"));
    first = entry;
  }
}

void check_interval(const Interval& interval, const Given& given, std::string_view strategy, std::string_view steps,
                    std::string_view parts) {
  forbid_both(given, steps, parts);
  const Entry *how = find(given, strategy), *every = find(given, steps), *times = find(given, parts);
  const std::string* word = how == nullptr ? nullptr : how->value.text();
  if (word == nullptr) return;
  if (*word == "steps" && every == nullptr && interval.when == When::steps)
    refuse(*how, concat("'", how->path, "' is steps, but '", steps, "' is missing; give both"));
  const Entry* more = every != nullptr ? every : times;
  if (more != nullptr && (*word == "no" || *word == "epoch"))
    refuse(*more, concat("'", more->path, "' and '", how->path, ": ", *word, "' contradict each other; keep one of the two"));
}

void check_validation(const Settings& settings, const Given& given) {
  if (const Entry* size = find(given, "val_set_size"); size != nullptr && settings.val_set_size > 0 && !settings.test_datasets.empty())
    refuse(*size, concat("'", size->path, "' and 'test_datasets' contradict each other; keep one of the two"));
  for (const std::string_view key : {"early_stopping_patience", "load_best_model_at_end"}) {
    const Entry* entry = find(given, key);
    if (entry == nullptr || (entry->value.boolean() != nullptr && !*entry->value.boolean())) continue;
    if (!settings.has_validation())
      refuse(*entry, concat("'", entry->path, "' needs a validation set; give val_set_size or test_datasets"));
    if (settings.evaluation.when == When::never)
      refuse(*entry, concat("'", entry->path, "' needs evaluations; leave out eval_strategy: no"));
  }
}

void check_template(const Given& given) {
  const Entry *name = find(given, "chat_template"), *text = find(given, "chat_template_jinja");
  const bool jinja = name != nullptr && name->value.text() != nullptr && *name->value.text() == "jinja";
  if (jinja && text == nullptr) refuse(*name, concat("'", name->path, "' is jinja, but 'chat_template_jinja' is missing; give both"));
  if (text != nullptr && name != nullptr && !jinja)
    refuse(*text, concat("'", text->path, "' and '", name->path, "' contradict each other; keep one of the two"));
}

void check_schedule(const Settings& settings, const Given& given) {
  const ScheduleOptions& options = settings.lr_scheduler_kwargs;
  const ScheduleKind kind = settings.lr_scheduler;
  const Entry* at = find(given, "lr_scheduler_kwargs");
  if (at == nullptr) at = find(given, "lr_scheduler");
  const bool waves = kind == ScheduleKind::cosine || kind == ScheduleKind::cosine_with_restarts || kind == ScheduleKind::cosine_with_min_lr;
  const auto only_for = [&](const std::optional<double>& value, bool fits, const char* name, const char* schedule) {
    if (value && !fits) refuse(*at, concat("'", at->path, "' has ", name, ", which belongs to the schedule ", schedule));
  };
  only_for(options.num_cycles, waves, "num_cycles", "cosine or cosine_with_restarts");
  only_for(options.power, kind == ScheduleKind::polynomial, "power", "polynomial");
  only_for(options.lr_end, kind == ScheduleKind::polynomial, "lr_end", "polynomial");
  only_for(options.min_lr, kind == ScheduleKind::cosine_with_min_lr, "min_lr", "cosine_with_min_lr");
  only_for(options.min_lr_rate, kind == ScheduleKind::cosine_with_min_lr, "min_lr_rate", "cosine_with_min_lr");
  only_for(options.timescale, kind == ScheduleKind::inverse_sqrt, "timescale", "inverse_sqrt");
  if (kind == ScheduleKind::cosine_with_min_lr && options.min_lr.has_value() == options.min_lr_rate.has_value())
    refuse(*at, "the schedule cosine_with_min_lr needs either min_lr or min_lr_rate in lr_scheduler_kwargs");
  if (kind == ScheduleKind::polynomial && options.lr_end.value_or(1e-7) >= settings.learning_rate)
    refuse(*at, concat("the schedule polynomial ends at ", options.lr_end.value_or(1e-7),
                       ", which is not below learning_rate; give another lr_end"));
  if (options.min_lr && *options.min_lr > settings.learning_rate)
    refuse(*at, concat("min_lr is ", *options.min_lr, ", above learning_rate; give a smaller one"));
  const Entry *steps = find(given, "warmup_steps"), *ratio = find(given, "warmup_ratio");
  if (steps != nullptr && ratio != nullptr && *steps->value.number() > 0 && *ratio->value.number() > 0)
    refuse(*ratio, concat("'", ratio->path, "' and '", steps->path, "' contradict each other; keep one of the two"));
}

}  // namespace

void check_together(const Settings& settings, const Given& given, const std::string& file) {
  require(given, file, "base_model", "base_model: a GGUF file or a name");
  require(given, file, "learning_rate", "learning_rate: 1e-4 for adapters, 1e-5 for all weights, and tune it");
  check_adapter(settings, given);
  check_precision(given);
  check_template(given);
  check_schedule(settings, given);
  check_interval(settings.evaluation, given, "eval_strategy", "eval_steps", "evals_per_epoch");
  check_interval(settings.saving, given, "save_strategy", "save_steps", "saves_per_epoch");
  check_validation(settings, given);
  if (const Entry* momentum = find(given, "sgd_momentum");
      momentum != nullptr && settings.sgd_momentum > 0 && settings.optimizer != Optimizer::sgd)
    refuse(*momentum, concat("'", momentum->path, "' belongs to optimizer: sgd; leave one of the two out"));
}

}  // namespace quern::training
