// quern train CFG.yaml [KEY=VALUE ..]: fine-tunes a model by a settings file.
#include "verbs.hpp"

#include "engine.hpp"
#include "input.hpp"
#include "model_path.hpp"
#include "new_trace.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "plugin_fault.hpp"
#include "table.hpp"
#include "training_log.hpp"
#include "training_settings.hpp"

#include "quern/base/files.hpp"
#include "quern.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <map>
#include <optional>

namespace quern::cli {
namespace {

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
      watch_for_hang(AtHang::name_it);  // a long step is no fault, and ends with a checkpoint
      quern_trainer_cancel(current);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_[0]);
    sigaction(SIGTERM, &action, &before_[1]);
  }
  ~StopSignals() {
    end_hang_watch();
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

Json json_of(const Text& text) { return Json::parse(view(text)); }

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

/// A line for each kind of tensor ("attn_q.lora_a"), one for each direction, and the verdict.
std::string gradients_page(const Json& check) {
  struct Kind {
    std::uint64_t tensors = 0;
    double least = 0, most = 0;
  };
  std::map<std::string, Kind> kinds;
  std::string faults;
  for (const Json& tensor : check.at("tensors")) {
    std::string name = tensor.at("name").get<std::string>();
    if (const std::string& fault = tensor.at("fault").get_ref<const std::string&>(); !fault.empty())
      faults += "wrong       the gradient of " + name + ": " + fault + "\n";
    if (name.starts_with("blk.")) name.erase(0, name.find('.', 4) + 1);
    const double norm = tensor.at("norm").is_number() ? tensor.at("norm").get<double>() : NAN;
    Kind& kind = kinds[name];
    kind.least = kind.tensors == 0 ? norm : std::min(kind.least, norm);
    kind.most = kind.tensors++ == 0 ? norm : std::max(kind.most, norm);
  }
  Table tensors({{"tensor"}, {"count", Align::right}, {"least norm", Align::right}, {"largest norm", Align::right}});
  for (const auto& [name, kind] : kinds) tensors.add({name, std::to_string(kind.tensors), scientific(kind.least), scientific(kind.most)});
  Table directions({{"direction", Align::right},
                    {"tensors", Align::right},
                    {"by the gradient", Align::right},
                    {"by differences", Align::right},
                    {"apart", Align::right}});
  std::uint64_t number = 0;
  for (const Json& one : check.at("directions")) {
    const double slope = one.at("slope").get<double>(), difference = one.at("difference").get<double>();
    directions.add({std::to_string(++number), one.at("tensors").dump(), scientific(slope), scientific(difference),
                    fixed(100 * std::fabs(difference / slope - 1), 3) + " %" + (one.at("right").get<bool>() ? "" : ", wrong")});
  }
  return tensors.text() + "\n" + directions.text() + "\n" + faults + "weights     " +
         (check.at("weights_unchanged").get<bool>() ? "unchanged" : "changed") + ", SHA-256 " +
         check.at("weights_sha256").get<std::string>() + "\n";
}

void check_gradients(quern_trainer* trainer, bool as_json) {
  const Json check = json_of(make<Text>(quern_trainer_check_gradients_json, trainer));
  if (as_json) write_json(check);
  else write_out(gradients_page(check));
  if (!check.at("passed").get<bool>())
    throw Failure(exit_bug, "the gradients are wrong on " + check.at("device").get<std::string>() +
                                ": report this with the table; another backend may be right");
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
  std::vector<std::string> overrides = flags.overrides;
  if (flags.resume) overrides.emplace_back("resume_from_checkpoint=true");
  const OpenedTraining training = open_training(flags.file, overrides);
  const quern_training_info& info = training.info;
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  const std::string base = model_path(info.base_model, settings, {.pull = line.named.pull, .offer = !line.quiet, .quiet = line.quiet});

  TrainingLog log(info.output_dir, info.logging_steps, info.tensorboard != 0, line.quiet);
  const quern_training_callbacks callbacks = log.callbacks();
  const quern_training_callbacks* told = &callbacks;
  const Trainer trainer = make<Trainer>(quern_trainer_create, runtime.get(), training.get(), base.c_str(), told);
  const Json plan = json_of(make<Text>(quern_trainer_json, trainer.get()));
  if (flags.show_data) {
    show_data(trainer.get(), *flags.show_data, line.json);
    return exit_ok;
  }
  if (!line.quiet) write_error_page(plan_page(plan));
  if (flags.check_gradients) {
    check_gradients(trainer.get(), line.json);
    return exit_ok;
  }
  if (flags.dry_run) {
    if (line.json) write_json(plan);
    return exit_ok;
  }
  std::optional<NewTrace> trace;
  if (flags.trace_file) trace.emplace(*flags.trace_file);
  check_file(base::make_folders(info.output_dir));
  const Text resolved = make<Text>(quern_training_yaml, training.get());
  check_file(base::write_file(std::string(info.output_dir) + "/config.yaml", read_file(flags.file)));
  check_file(base::write_file(std::string(info.output_dir) + "/resolved.yaml", view(resolved)));
  log.begin(plan.at("step").get<std::uint64_t>());

  if (trace) check(quern_trainer_trace_start(trainer.get()));
  std::uint32_t end = 0;
  {
    const StopSignals signals(trainer.get());
    check(quern_trainer_run(trainer.get(), 0, &callbacks, &end));
  }
  log.end();
  if (trace) trace->write(make<Text>(quern_trainer_trace_json, trainer.get()));
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
