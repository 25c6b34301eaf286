// Fine-tuning of quern.h.
#include "boundary.hpp"
#include "handles.hpp"

#include "../data_loss.hpp"
#include "../trainer.hpp"
#include "trace_json.hpp"

#include "quern/training/settings_file.hpp"

using namespace quern;
using namespace quern::c_api;

struct quern_training {
  training::ParsedSettings parsed;
};

struct quern_trainer : quern::c_api::Owner {
  std::shared_ptr<runtime::Runtime> runtime;
  std::unique_ptr<runtime::Trainer> trainer;
  std::atomic<bool> busy{false};
};

namespace {

void require_trainer(const quern_trainer* trainer) {
  c_api::require(static_cast<const void*>(trainer), "trainer");
  trainer->require_same_process("trainer");
}

/// Holds a trainer for one call; a second call at the same time is refused.
class TrainerTurn {
 public:
  explicit TrainerTurn(quern_trainer* trainer) : use_(trainer), trainer_(trainer) {
    require_driver_stack(trainer->runtime->devices());
    if (trainer_->busy.exchange(true)) throw Error(QUERN_BUSY, "the trainer is in use by another call");
  }
  ~TrainerTurn() { trainer_->busy = false; }
  TrainerTurn(const TrainerTurn&) = delete;
  TrainerTurn& operator=(const TrainerTurn&) = delete;

 private:
  Owner::Use use_;  // a callback may release it
  quern_trainer* trainer_;
};

quern_training_step step_of(const runtime::StepEvent& e) {
  quern_training_step step{};
  step.struct_size = sizeof step;
  step.step = e.step;
  step.steps = e.steps;
  step.epoch = e.epoch;
  step.loss = e.loss;
  step.gradient_norm = e.gradient_norm;
  step.rate = e.rate;
  step.tokens = e.tokens;
  step.labels = e.labels;
  step.skipped = e.skipped;
  step.seconds = e.seconds;
  step.memory_bytes = e.memory_bytes;
  return step;
}

quern_training_evaluation evaluation_of(const runtime::EvaluationEvent& e) {
  quern_training_evaluation evaluation{};
  evaluation.struct_size = sizeof evaluation;
  evaluation.step = e.step;
  evaluation.loss = e.loss;
  evaluation.labels = e.labels;
  evaluation.best = e.best ? 1 : 0;
  evaluation.seconds = e.seconds;
  return evaluation;
}

/// A callback without an answer.
template <typename Function, typename... Arguments>
void tell(Function* function, Arguments... arguments) {
  const Callback callback;
  function(arguments...);
  callback.require_same_process();
}

runtime::TrainingCallbacks callbacks_of(const quern_training_callbacks& c) {
  runtime::TrainingCallbacks callbacks;
  if (c.step != nullptr)
    callbacks.step = [c](const runtime::StepEvent& event) {
      const quern_training_step step = step_of(event);
      return call_back(c.step, c.user, &step) == 0;
    };
  if (c.evaluation != nullptr)
    callbacks.evaluation = [c](const runtime::EvaluationEvent& event) {
      const quern_training_evaluation evaluation = evaluation_of(event);
      return call_back(c.evaluation, c.user, &evaluation) == 0;
    };
  if (c.saved != nullptr)
    callbacks.saved = [c](const std::string& folder, std::uint64_t step) { tell(c.saved, c.user, step, folder.c_str()); };
  if (c.progress != nullptr)
    callbacks.progress = [c](std::uint64_t done, std::uint64_t total) { return call_back(c.progress, c.user, done, total) == 0; };
  if (c.warning != nullptr) callbacks.warning = [c](const std::string& sentence) { tell(c.warning, c.user, sentence.c_str()); };
  return callbacks;
}

std::shared_ptr<runtime::Runtime> ready(const quern_runtime& runtime) {
  std::shared_ptr<runtime::Runtime> kept = runtime.runtime;
  kept->require_ready();
  require_driver_stack(kept->devices());
  return kept;
}

std::string base_of(const training::Settings& settings, const char* base) { return base == nullptr ? settings.base_model : base; }

std::unique_ptr<runtime::Trainer> trainer_of(quern_runtime* runtime, const quern_training* training, const char* base,
                                             const quern_training_callbacks* callbacks, runtime::Trainer::Until until) {
  c_api::require(runtime, "runtime");
  c_api::require(static_cast<const void*>(training), "training");
  const runtime::TrainingCallbacks told = callbacks_of(whole(callbacks, "quern_training_callbacks"));
  const Owner::Use use(runtime);
  const training::Settings settings = training->parsed.settings;
  return std::make_unique<runtime::Trainer>(ready(*runtime), base_of(settings, base), settings, told, until);
}

std::uint32_t end_of(runtime::TrainingEnd end) {
  switch (end) {
    case runtime::TrainingEnd::steps: return QUERN_TRAINING_DONE;
    case runtime::TrainingEnd::stopped: return QUERN_TRAINING_STOPPED;
    case runtime::TrainingEnd::early_stopping: return QUERN_TRAINING_EARLY;
    case runtime::TrainingEnd::watchdog: return QUERN_TRAINING_WATCHDOG;
  }
  return 0;
}

}  // namespace

extern "C" {

quern_status quern_training_open(const char* json, const quern_training_options* options, quern_training** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(json, "json");
    const auto o = whole(options, "quern_training_options");
    if (o.override_count > 0) require(o.overrides, "overrides");
    std::vector<std::string> overrides;
    for (std::uint64_t i = 0; i < o.override_count; ++i) {
      require(o.overrides[i], "an override");
      overrides.emplace_back(o.overrides[i]);
    }
    const training::Places places = o.places == nullptr ? training::Places() : training::parse_places(o.places);
    *out = new quern_training{training::parse_settings(json, overrides, places)};
  });
}

void quern_training_release(quern_training* training) { delete training; }

quern_status quern_training_get_info(const quern_training* training, quern_training_info* out) {
  return guarded<Needs::little>([&] {
    require(training, "training");
    const training::Settings& settings = training->parsed.settings;
    quern_training_info info{};
    info.base_model = settings.base_model.c_str();
    info.output_dir = settings.output_dir.c_str();
    info.logging_steps = settings.logging_steps;
    info.resumes = settings.resume_last || !settings.resume_from_checkpoint.empty() ? 1 : 0;
    info.tensorboard = settings.tensorboard ? 1 : 0;
    give(out, info, "quern_training_info");
  });
}

quern_status quern_training_yaml(const quern_training* training, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(training, "training");
    const std::vector<std::string> comments = {concat("Quern ", QUERN_LIBRARY_VERSION)};
    *out = make_text(training::resolved_file(training->parsed.settings, comments));
  });
}

quern_status quern_training_notes(const quern_training* training, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(training, "training");
    std::string notes;
    for (const std::string& note : training->parsed.notes) notes += note + "\n";
    *out = make_text(std::move(notes));
  });
}

quern_status quern_training_starter(const char* kind, const char* model, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(kind, "kind");
    const std::string_view word = kind;
    if (word != "lora" && word != "qlora" && word != "full")
      throw Error(QUERN_INVALID_ARGUMENT, concat("'", word.substr(0, 40), "' is no kind of training: lora, qlora or full"));
    const training::Adapter adapter = word == "lora"    ? training::Adapter::lora
                                      : word == "qlora" ? training::Adapter::qlora
                                                        : training::Adapter::none;
    *out = make_text(training::starter_file(adapter, text_or_empty(model)));
  });
}

quern_status quern_trainer_create(quern_runtime* runtime, const quern_training* training, const char* base,
                                  const quern_training_callbacks* callbacks, quern_trainer** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    auto handle = std::make_unique<quern_trainer>();
    handle->trainer = trainer_of(runtime, training, base, callbacks, runtime::Trainer::Until::loaded);
    handle->runtime = runtime->runtime;
    *out = handle.release();
  });
}

quern_status quern_training_estimate_json(quern_runtime* runtime, const quern_training* training, const char* base,
                                          const quern_training_callbacks* callbacks, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    *out = make_text(trainer_of(runtime, training, base, callbacks, runtime::Trainer::Until::compiled)->estimate_json());
  });
}

quern_status quern_training_evaluate_json(quern_runtime* runtime, const quern_training* training, const char* base,
                                          const quern_merge_adapter* adapter, const quern_training_callbacks* callbacks, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(runtime, "runtime");
    require(training, "training");
    std::optional<runtime::ScaledAdapter> read;
    if (adapter != nullptr) {
      const auto given = whole(adapter, "quern_merge_adapter");
      require(given.path, "the adapter's path");
      read = {given.path, given.scale == 0 ? 1 : given.scale};
    }
    const runtime::TrainingCallbacks told = callbacks_of(whole(callbacks, "quern_training_callbacks"));
    const Owner::Use use(runtime);
    const training::Settings settings = training->parsed.settings;  // a callback may release it
    *out = make_text(runtime::evaluate_data_json(ready(*runtime), base_of(settings, base), settings, read, told));
  });
}

void quern_trainer_release(quern_trainer* trainer) { Owner::release(trainer); }

quern_status quern_trainer_run(quern_trainer* trainer, uint64_t most_steps, const quern_training_callbacks* callbacks, uint32_t* end) {
  return guarded([&] {
    require_trainer(trainer);
    require(end, "end");
    *end = 0;
    const runtime::TrainingCallbacks told = callbacks_of(whole(callbacks, "quern_training_callbacks"));
    const TrainerTurn turn(trainer);
    *end = end_of(trainer->trainer->run(most_steps, told));
  });
}

void quern_trainer_cancel(quern_trainer* trainer) {
  if (trainer != nullptr) trainer->trainer->cancel();
}

quern_status quern_trainer_evaluate(quern_trainer* trainer, quern_training_evaluation* out) {
  return guarded([&] {
    require_trainer(trainer);
    require(out, "out");
    const TrainerTurn turn(trainer);
    give(out, evaluation_of(trainer->trainer->evaluate()), "quern_training_evaluation");
  });
}

quern_status quern_trainer_save(quern_trainer* trainer, quern_text** folder) {
  return guarded([&] {
    if (folder != nullptr) *folder = nullptr;
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    std::string written = trainer->trainer->save();
    trainer->trainer->rotate();
    if (folder != nullptr) *folder = make_text(std::move(written));
  });
}

quern_status quern_trainer_write_result(quern_trainer* trainer) {
  return guarded([&] {
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    trainer->trainer->write_result();
  });
}

quern_status quern_trainer_json(quern_trainer* trainer, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    *out = make_text(trainer->trainer->json());
  });
}

quern_status quern_trainer_check_gradients_json(quern_trainer* trainer, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    *out = make_text(trainer->trainer->check_gradients_json());
  });
}

quern_status quern_trainer_trace_start(quern_trainer* trainer) {
  return guarded<Needs::text>([&] {
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    trainer->trainer->engine().start_trace();
  });
}

quern_status quern_trainer_trace_json(quern_trainer* trainer, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    runtime::TrainingEngine& engine = trainer->trainer->engine();
    const std::unique_ptr<runtime::Trace> trace = engine.take_trace();
    if (trace == nullptr) throw Error(QUERN_INVALID_ARGUMENT, "the trainer records no trace; quern_trainer_trace_start begins one");
    *out = make_text(trace_json(*trace, engine.traced_programs()));
  });
}

quern_status quern_trainer_example_json(quern_trainer* trainer, uint64_t index, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require_trainer(trainer);
    const TrainerTurn turn(trainer);
    *out = make_text(trainer->trainer->example_json(index));
  });
}

}  // extern "C"
