// A fine-tuning run: settings and examples in, adapters and checkpoints out.
//
// Decides which examples make which batch, at which rate each step goes, when to evaluate, save and stop. The devices' side is
// training_engine.hpp. All choices follow from settings, data and step, so a run that goes on from a checkpoint does what the whole one did.
#pragma once

#include "checkpoint.hpp"
#include "training_engine.hpp"
#include "vocabulary.hpp"

#include "quern/graph/json_writer.hpp"
#include "quern/models/peft.hpp"
#include "quern/training/examples.hpp"
#include "quern/training/packing.hpp"
#include "quern/training/settings.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace quern::runtime {

/// Behind a step of the optimiser.
struct StepEvent {
  std::uint64_t step = 0, steps = 0;  // done, and of the whole run
  double epoch = 0;                   // epochs that are done, with the share of the current one
  double loss = 0;                    // the weighted mean over the batch's labels, in nats
  double gradient_norm = 0;           // before clipping
  double rate = 0;
  std::uint64_t tokens = 0, labels = 0;  // of this batch
  std::uint64_t skipped = 0;             // steps so far whose gradients were not finite
  double seconds = 0;                    // of this step
  std::uint64_t memory_bytes = 0;
};

struct EvaluationEvent {
  std::uint64_t step = 0;
  double loss = 0;  // the weighted mean over all labels of the validation set
  std::uint64_t labels = 0;
  bool best = false;
  double seconds = 0;
};

/// A callback that returns false ends the run behind this step, with a checkpoint.
struct TrainingCallbacks {
  std::function<bool(const StepEvent&)> step;
  std::function<bool(const EvaluationEvent&)> evaluation;
  std::function<void(const std::string& folder, std::uint64_t step)> saved;
  std::function<void(const std::string& sentence)> warning;
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // of evaluate_data_json() alone, in examples; false ends it
};

enum class TrainingEnd : std::uint8_t {
  steps,           // all of them are done
  stopped,         // by a callback or by cancel()
  early_stopping,  // the validation loss did not fall for early_stopping_patience evaluations
  watchdog         // the loss stayed above loss_watchdog_threshold, or too many steps in a row had gradients that were not finite
};

class Trainer {
 public:
  enum class Until : std::uint8_t {
    compiled,  // for estimate_json() alone: no weight is read
    loaded     // ready to run
  };

  /// Reads base and data, compiles, loads; goes on from a checkpoint where the settings ask for it. Throws Error: what reading the base, the
  /// data or an adapter throws; QUERN_INVALID_ARGUMENT for settings that the model cannot follow; QUERN_DOES_NOT_FIT, which names the
  /// nearest settings that fit.
  Trainer(std::shared_ptr<Runtime> runtime, const std::string& base_path, training::Settings settings, const TrainingCallbacks& callbacks,
          Until until = Until::loaded);

  std::uint64_t steps() const noexcept { return steps_; }
  const RunState& state() const noexcept { return state_; }
  const training::Dataset& examples() const noexcept { return examples_; }
  const training::Dataset& validation() const noexcept { return validation_; }
  const TrainingEngine& engine() const noexcept { return *engine_; }
  TrainingEngine& engine() noexcept { return *engine_; }

  /// Trains until an end; `most_steps` more at most, 0: all. May be called again.
  TrainingEnd run(std::uint64_t most_steps, const TrainingCallbacks& callbacks);
  /// Throws Error(QUERN_INVALID_ARGUMENT) without a validation set.
  EvaluationEvent evaluate();
  /// Writes a checkpoint of the step that is done and returns its folder.
  std::string save();
  /// Removes checkpoints beyond save_total_limit, behind a save.
  void rotate() const;
  /// The result into output_dir itself: the adapter, or the model as model.gguf.
  void write_result();
  /// The adapter as it is now.
  peft::Adapter adapter() const;

  /// As quern_trainer_json() and quern_trainer_example_json() give them.
  std::string json() const;
  /// As quern_training_estimate_json() gives it.
  std::string estimate_json() const;
  std::string example_json(std::uint64_t index) const;
  /// As quern_trainer_check_gradients_json() gives it. What is trained is as before afterwards.
  std::string check_gradients_json();

  /// From any thread, and from a signal handler: the step in flight ends, and run() returns `stopped`.
  void cancel() noexcept { cancelled_ = true; }

 private:
  void plan_batches();
  TrainingEngineOptions engine_options(const training::Settings& settings, std::uint32_t sequence_len) const;
  std::unique_ptr<TrainingEngine> compile(const training::Settings& settings, std::uint32_t sequence_len) const;
  TrainingMemory memory() const;
  std::string nearest_that_fits() const;
  std::string gradients_json(TrainingEngine& engine) const;
  void write_members(JsonWriter& json) const;
  const training::MicroBatches& batches_of_epoch(std::uint64_t epoch) const;
  std::vector<std::vector<std::uint32_t>> batch_of(std::uint64_t step) const;
  void set_up_adapter();
  void write_adapter(const peft::Adapter& adapter);
  void resume(const TrainingCallbacks& callbacks);
  StepEvent step(std::uint64_t number);
  /// Throws Error(QUERN_INVALID_ARGUMENT) where an update ended by an error.
  void require_whole_step() const;
  bool trains_all() const noexcept;
  void write_trained(const std::string& folder) const;
  void read_trained(const std::string& folder);
  bool due(const training::Interval& interval, std::uint64_t step) const;
  std::string settings_sum() const;

  std::shared_ptr<Runtime> runtime_;
  std::string base_path_;
  training::Settings settings_;
  models::Hyperparameters shape_;
  peft::BaseShape base_;
  std::string base_sum_;
  std::unique_ptr<Vocabulary> vocabulary_;
  training::Dataset examples_, validation_;
  std::unique_ptr<TrainingEngine> engine_;
  std::uint64_t micro_batches_ = 0;  // of an epoch
  std::uint64_t steps_of_epoch_ = 0, steps_ = 0;
  std::uint32_t sequence_len_ = 0;
  mutable std::uint64_t epoch_ = UINT64_MAX;  // that order_ is of
  mutable training::MicroBatches order_;
  training::Schedule schedule_;
  RunState state_;
  enum class InStep : std::uint8_t { none, batch, update };
  InStep in_step_ = InStep::none;  // where the step in flight is, or the last one ended by an error
  std::atomic<bool> cancelled_{false};
};

}  // namespace quern::runtime
