// quern train CFG.yaml [KEY=VALUE ..]: fine-tunes a model by a settings file.
#include "verbs.hpp"

#include "engine.hpp"
#include "input.hpp"
#include "model_path.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "training_log.hpp"
#include "yaml_file.hpp"

#include "quern/base/files.hpp"
#include "quern.h"

#include <atomic>
#include <cmath>
#include <csignal>

namespace quern::cli {
namespace {

using Training = Handle<quern_training, quern_training_release>;
using Trainer = Handle<quern_trainer, quern_trainer_release>;

void check_file(const base::FileProblem& problem) {
  if (problem) throw Failure(exit_refused, problem.text);
}

/// The first SIGINT or SIGTERM ends the run behind its step, with a checkpoint; a second one ends the process at once.
class StopSignals {
 public:
  explicit StopSignals(quern_trainer* trainer) {
    current = trainer;
    caught = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      caught = signal;
      quern_trainer_cancel(current);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_[0]);
    sigaction(SIGTERM, &action, &before_[1]);
  }
  ~StopSignals() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGTERM, &before_[1], nullptr);
    current = nullptr;
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static int signal() { return caught; }

 private:
  static inline std::atomic<quern_trainer*> current = nullptr;
  static inline volatile std::sig_atomic_t caught = 0;
  struct sigaction before_[2]{};
};

Training open_training(const TrainFlags& flags, const YamlFile& file) {
  std::vector<std::string> overrides = flags.overrides;
  if (flags.resume) overrides.emplace_back("resume_from_checkpoint=true");
  std::vector<const char*> texts;
  for (const std::string& one : overrides) texts.push_back(one.c_str());
  const std::string places = places_json(file, flags.file);
  quern_training_options options{};
  options.struct_size = sizeof options;
  options.overrides = texts.data();
  options.override_count = texts.size();
  options.places = places.c_str();
  const quern_training_options* given = &options;
  Training training = make<Training>(quern_training_open, file.json.c_str(), given);
  const Text notes = make<Text>(quern_training_notes, static_cast<const quern_training*>(training.get()));
  if (!view(notes).empty()) write_error_page(view(notes));
  return training;
}

Json json_of(const Text& text) { return Json::parse(view(text)); }

/// "312 examples, 41,203 tokens, 9,120 of them count (22.1 %), the longest 388", and what was left out.
std::string data_line(const std::string& what, const Json& data) {
  const auto count = [&](const char* name) { return data.at(name).get<std::uint64_t>(); };
  const std::uint64_t tokens = count("tokens"), labels = count("labels");
  std::string line = what + std::string(12 - what.size(), ' ') + std::to_string(count("examples")) + " examples, " +
                     std::to_string(tokens) + " tokens, " + std::to_string(labels) + " of them count";
  if (tokens > 0) line += " (" + fixed(100.0 * static_cast<double>(labels) / static_cast<double>(tokens), 1) + " %)";
  line += ", the longest has " + std::to_string(count("longest"));
  for (const auto& [name, words] :
       {std::pair("dropped_long", " too long"), {"dropped_unlabelled", " without a token that counts"}, {"bad_lines", " unreadable"}})
    if (const std::uint64_t dropped = count(name); dropped > 0) line += "; " + std::to_string(dropped) + words + " left out";
  return line;
}

std::string plan_page(const Json& plan) {
  std::string page = data_line("train", plan.at("train")) + "\n";
  if (plan.at("validation").at("examples") != 0) page += data_line("validation", plan.at("validation")) + "\n";
  page += "steps       " + plan.at("steps").dump() + ", " + plan.at("steps_of_epoch").dump() + " an epoch";
  if (plan.at("step") != 0) page += "; " + plan.at("step").dump() + " are done";
  page += "\ntrained     " + plan.at("trained_parameters").dump() + " parameters on " + plan.at("device").get<std::string>() + ", " +
          fixed(plan.at("memory_bytes").get<double>() / (1 << 20), 1) + " MiB\n";
  return page;
}

/// Text that counts stands between marks.
std::string example_page(const Json& example) {
  std::string page = example.at("source").get<std::string>() + ", " + std::to_string(example.at("ids").size()) + " tokens:\n";
  for (const Json& piece : example.at("pieces")) {
    const std::string text = piece.at("text").get<std::string>();
    page += piece.at("counts").get<bool>() ? "[[" + text + "]]" : text;
  }
  return page + "\n";
}

void show_data(quern_trainer* trainer, std::uint64_t count, bool as_json) {
  Json all = Json::array();
  for (std::uint64_t i = 0; i < count; ++i) {
    quern_text* text = nullptr;
    const quern_status status = quern_trainer_example_json(trainer, i, &text);
    if (status == QUERN_NOT_FOUND) break;
    check(status);
    const Text owned(text);
    if (as_json) all.push_back(json_of(owned));
    else write_out(example_page(json_of(owned)));
  }
  if (as_json) write_json(Json{{"examples", all}});
}

const char* word_of(std::uint32_t end) {
  switch (end) {
    case QUERN_TRAINING_DONE: return "done";
    case QUERN_TRAINING_EARLY: return "early_stopping";
    case QUERN_TRAINING_WATCHDOG: return "watchdog";
    default: return "stopped";
  }
}

}  // namespace

int train_verb(const CommandLine& line, const Settings& settings) {
  const TrainFlags& flags = line.train;
  if (flags.init) {
    const Text text = make<Text>(quern_training_starter, flags.init->c_str(), flags.file.empty() ? nullptr : flags.file.c_str());
    write_out(view(text));
    return exit_ok;
  }
  if (flags.file.empty())
    throw Failure(exit_usage, "train: CFG is missing: give a settings file; quern train --init lora MODEL writes one");
  const YamlFile file = read_yaml(flags.file);
  const Training training = open_training(flags, file);
  const auto info = get<quern_training_info>(quern_training_get_info, static_cast<const quern_training*>(training.get()));
  if (*info.base_model == '\0')
    throw Failure(exit_usage, flags.file + ": base_model is missing; give the GGUF file, or the name of the model, that is to be trained");
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  const std::string base = model_path(info.base_model, settings, {.pull = line.named.pull, .offer = !line.quiet, .quiet = line.quiet});

  TrainingLog log(info.output_dir, info.logging_steps, line.quiet);
  const quern_training_callbacks callbacks = log.callbacks();
  const quern_training_callbacks* told = &callbacks;
  const Trainer trainer =
      make<Trainer>(quern_trainer_create, runtime.get(), static_cast<const quern_training*>(training.get()), base.c_str(), told);
  const Json plan = json_of(make<Text>(quern_trainer_json, trainer.get()));
  if (flags.show_data) {
    show_data(trainer.get(), *flags.show_data, line.json);
    return exit_ok;
  }
  if (!line.quiet) write_error_page(plan_page(plan));
  if (flags.dry_run) {
    if (line.json) write_json(plan);
    return exit_ok;
  }
  check_file(base::make_folders(info.output_dir));
  const Text resolved = make<Text>(quern_training_yaml, static_cast<const quern_training*>(training.get()));
  check_file(base::write_file(std::string(info.output_dir) + "/config.yaml", read_file(flags.file)));
  check_file(base::write_file(std::string(info.output_dir) + "/resolved.yaml", view(resolved)));
  log.begin(plan.at("step").get<std::uint64_t>());

  std::uint32_t end = 0;
  {
    const StopSignals signals(trainer.get());
    check(quern_trainer_run(trainer.get(), 0, &callbacks, &end));
  }
  log.end();
  if (end == QUERN_TRAINING_DONE || end == QUERN_TRAINING_EARLY) check(quern_trainer_write_result(trainer.get()));
  Json result = json_of(make<Text>(quern_trainer_json, trainer.get()));
  result["end"] = word_of(end);
  result["output_dir"] = info.output_dir;
  for (const auto& [name, number] : log.results()) result[name] = number;
  if (line.json) write_json(result);
  else write_out(log.closing_page(word_of(end)));
  if (end == QUERN_TRAINING_WATCHDOG)
    throw Failure(exit_watchdog,
                  "the run ended by its watchdog: the loss was too high or not finite; lower learning_rate, or look at the data");
  if (const int signal = StopSignals::signal(); end == QUERN_TRAINING_STOPPED && signal != 0) return 128 + signal;
  return exit_ok;
}

}  // namespace quern::cli
