// See trainer.hpp.
#include "trainer.hpp"

#include "adapters.hpp"
#include "data_loss.hpp"
#include "model.hpp"
#include "trainer_data.hpp"
#include "tuned_model.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/graph/sha256.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/gguf.hpp"
#include "quern/training/initial.hpp"
#include "quern/training/order.hpp"
#include "quern/training/packing.hpp"
#include "quern/training/settings_file.hpp"

#include <algorithm>
#include <cmath>

namespace quern::runtime {
namespace {

constexpr std::uint64_t most_skipped_in_row = 10;

/// The products of a layer by their tensors, in the order that numbers them.
std::vector<std::string> parts_of(const training::Settings& settings) {
  std::vector<std::string> parts;
  for (const std::string& module : settings.lora_target_modules) {
    const std::optional<peft::Target> target = peft::find_target(module);
    if (!target) throw Error(QUERN_INVALID_ARGUMENT, concat("lora_target_modules: '", module, "' is no matrix of a layer"));
    parts.emplace_back(peft::gguf_name(*target));
  }
  return parts;
}

peft::Target target_of(const std::string& part) {
  for (const peft::Target target : peft::every_target)
    if (peft::gguf_name(target) == part) return target;
  throw Error(QUERN_INTERNAL, concat("'", part, "' is no matrix of a layer"));
}

models::TrainedLayout layout_of(const training::Settings& settings, const models::Hyperparameters& shape, const gguf::File& file) {
  if (settings.adapter == training::Adapter::none) return models::full_layout(shape, file);
  std::vector<std::uint32_t> layers = settings.peft_layers_to_transform;
  if (layers.empty())
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) layers.push_back(layer);
  return models::adapter_layout(shape, layers, parts_of(settings), settings.lora_r, settings.lora_alpha, settings.peft_use_rslora);
}

graph::Checkpointing checkpointing_of(training::Checkpointing checkpointing) {
  switch (checkpointing) {
    case training::Checkpointing::selective: return graph::Checkpointing::selective;
    case training::Checkpointing::full: return graph::Checkpointing::full;
    default: return graph::Checkpointing::none;
  }
}

/// Gradients that are not finite halve the scale, and 2,000 updates at one scale double it.
constexpr std::uint64_t first_loss_scale = 1 << 15, most_loss_scale = 1 << 24, updates_until_doubled = 2000;

void adjust_scale(RunState& state, bool finite) {
  if (!finite) {
    state.loss_scale = std::max<std::uint64_t>(1, state.loss_scale / 2);
    state.updates_at_scale = 0;
  } else if (++state.updates_at_scale == updates_until_doubled) {
    state.loss_scale = std::min(most_loss_scale, state.loss_scale * 2);
    state.updates_at_scale = 0;
  }
}

}  // namespace

Trainer::Trainer(std::shared_ptr<Runtime> runtime, const std::string& base_path, training::Settings settings,
                 const TrainingCallbacks& callbacks, Until until)
    : runtime_(std::move(runtime)), base_path_(base_path), settings_(std::move(settings)) {
  const gguf::File file = models::open_model(base_path_);
  shape_ = models::read_hyperparameters(file);
  base_ = peft::base_shape(shape_);
  base_sum_ = std::to_string(fingerprint_of(file, shape_));
  if (settings_.adapter == training::Adapter::qlora) {
    const gguf::TensorInfo* most = of_most_used_format(file);
    if (most == nullptr || !graph::is_block_format(most->dtype))
      throw Error(QUERN_INVALID_ARGUMENT, concat("adapter: qlora needs a quantised base, and ", base_path_, " is ",
                                                 most == nullptr ? "empty" : graph::dtype_name(most->dtype), "; use adapter: lora"));
  }
  sequence_len_ = std::min(settings_.sequence_len.value_or(2048), shape_.context);
  vocabulary_ = std::make_unique<Vocabulary>(file);
  training::TrainingData data = load_training_data(settings_, *vocabulary_, sequence_len_);
  examples_ = std::move(data.train);
  validation_ = std::move(data.validation);
  for (const training::Dataset* one : {&examples_, &validation_})
    for (const std::string& warning : one->summary.warnings())
      if (callbacks.warning) callbacks.warning(warning);
  plan_batches();

  engine_ = compile(settings_, sequence_len_);
  state_.base = base_sum_;
  state_.data = concat(sum_of(examples_), "-", sum_of(validation_));
  state_.settings = settings_sum();
  state_.device = engine_->device_label();
  if (settings_.precision == training::Precision::fp16) state_.loss_scale = first_loss_scale;
  if (until == Until::compiled) return;
  if (const std::string lack = engine_->lack(); !lack.empty()) throw Error(QUERN_DOES_NOT_FIT, concat(lack, "; ", nearest_that_fits()));
  engine_->load(file);
  if (settings_.adapter != training::Adapter::none) set_up_adapter();
  if (settings_.resume_last || !settings_.resume_from_checkpoint.empty()) resume(callbacks);
}

TrainingEngineOptions Trainer::engine_options(const training::Settings& settings, std::uint32_t sequence_len) const {
  // Of the examples that remain at this length: longer ones are cut, or left out.
  const bool cut = settings.excess_length_strategy == training::ExcessLength::truncate;
  const auto lengths_of = [&](const training::Dataset& data, std::vector<std::uint32_t>* labels) {
    std::vector<std::uint32_t> lengths;
    for (const training::Example& example : data.examples) {
      const auto length = static_cast<std::uint32_t>(example.ids.size());
      if (length > sequence_len && !cut) continue;
      lengths.push_back(std::min(length, sequence_len));
      if (labels != nullptr) labels->push_back(std::min(static_cast<std::uint32_t>(example.labelled()), sequence_len));
    }
    return lengths;
  };
  std::vector<std::uint32_t> labels;
  const std::vector<std::uint32_t> tokens = lengths_of(examples_, &labels);
  TrainingEngineOptions options;
  const std::uint64_t budget = std::uint64_t{settings.micro_batch_size} * sequence_len;
  const std::uint64_t rows = settings.sample_packing ? std::min(budget, sum_of_largest(tokens, tokens.size()))
                                                     : sum_of_largest(tokens, settings.micro_batch_size);
  options.graph.max_tokens = rows_or_refuse(std::max<std::uint64_t>(1, rows), "the data");
  const std::uint64_t most_labels =
      std::min<std::uint64_t>(sum_of_largest(labels, settings.sample_packing ? labels.size() : settings.micro_batch_size), rows);
  const std::uint32_t chunk = models::labels_of_chunk(shape_.vocabulary);
  options.graph.chunk_labels = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most_labels, 1, chunk));
  options.graph.chunks = static_cast<std::uint32_t>((most_labels + options.graph.chunk_labels - 1) / options.graph.chunk_labels);
  set_precision(options, settings.precision);
  options.graph.dropout = settings.adapter == training::Adapter::none ? 0 : settings.lora_dropout;
  options.graph.checkpointing = checkpointing_of(settings.gradient_checkpointing);
  options.update = {.sgd = settings.optimizer == training::Optimizer::sgd,
                    .beta1 = settings.adam_beta1,
                    .beta2 = settings.adam_beta2,
                    .epsilon = settings.adam_epsilon,
                    .weight_decay = settings.weight_decay,
                    .momentum = settings.sgd_momentum,
                    .max_norm = settings.max_grad_norm};
  options.seed = {static_cast<std::uint32_t>(settings.seed), static_cast<std::uint32_t>(settings.seed >> 32)};
  const std::uint64_t evaluated = sum_of_largest(lengths_of(validation_, nullptr), settings.micro_batch_size);
  options.evaluation_tokens = rows_or_refuse(std::max<std::uint64_t>(1, evaluated), "the validation data");
  return options;
}

std::unique_ptr<TrainingEngine> Trainer::compile(const training::Settings& settings, std::uint32_t sequence_len) const {
  const gguf::File file = models::open_model(base_path_);
  return std::make_unique<TrainingEngine>(runtime_, file, shape_, layout_of(settings, shape_, file),
                                          engine_options(settings, sequence_len));
}

void Trainer::plan_batches() {
  micro_batches_ = batches_of_epoch(0).size();
  steps_of_epoch_ = training::steps_of_epoch(micro_batches_, settings_.gradient_accumulation_steps);
  steps_ = training::steps_of_run(micro_batches_, settings_.gradient_accumulation_steps, settings_.num_epochs, settings_.max_steps);
  if (steps_ == 0) throw Error(QUERN_INVALID_ARGUMENT, "the settings ask for no step: raise num_epochs or max_steps");
  schedule_ = settings_.schedule(steps_);
}

const training::MicroBatches& Trainer::batches_of_epoch(std::uint64_t epoch) const {
  if (epoch != epoch_) {
    order_ = training::micro_batches(examples_.lengths(),
                                     {.micro_batch_size = settings_.micro_batch_size,
                                      .sequence_len = sequence_len_,
                                      .sample_packing = settings_.sample_packing,
                                      .shuffle = settings_.shuffle},
                                     settings_.seed, static_cast<std::uint32_t>(epoch));
    epoch_ = epoch;
  }
  return order_;
}

std::vector<std::vector<std::uint32_t>> Trainer::batch_of(std::uint64_t step) const {
  // The number of micro-batches may differ a little between packed epochs; a step belongs to one epoch all the same.
  const training::MicroBatches& batches = batches_of_epoch(step / steps_of_epoch_);
  const std::uint64_t window = step % steps_of_epoch_, size = settings_.gradient_accumulation_steps;
  const bool last = window + 1 == steps_of_epoch_;
  std::vector<std::vector<std::uint32_t>> micro;
  for (std::uint64_t b = window * size; b < (last ? batches.size() : std::min<std::uint64_t>((window + 1) * size, batches.size())); ++b)
    micro.emplace_back(batches[b].begin(), batches[b].end());
  return micro;
}

void Trainer::set_up_adapter() {
  const models::TrainedLayout& layout = engine_->layout();
  if (!settings_.lora_model_dir.empty()) {
    write_adapter(peft::read_folder(settings_.lora_model_dir));
    return;
  }
  std::vector<float> a;
  for (const models::AdapterPlace& place : layout.adapters) {
    a.resize(static_cast<std::size_t>(place.rank * place.inputs));
    training::fill_initial_a(a, static_cast<std::uint64_t>(place.inputs), place.salt, settings_.seed);
    engine_->write_trained(place.a, a);
  }
}

void Trainer::write_adapter(const peft::Adapter& adapter) {
  peft::check_fits(adapter, base_);
  const models::TrainedLayout& layout = engine_->layout();
  const auto refuse = [&](const std::string& what) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("the adapter does not match the settings: ", what));
  };
  if (adapter.matrices.size() != layout.adapters.size())
    refuse(concat("it has ", adapter.matrices.size(), " matrices and lora_target_modules asks for ", layout.adapters.size()));
  for (const models::AdapterPlace& place : layout.adapters) {
    const peft::AdapterMatrix* matrix = adapter.find(place.layer, target_of(place.part));
    if (matrix == nullptr) refuse(concat("it has none for layer ", place.layer, ", ", place.part));
    if (matrix->rank != place.rank) refuse(concat(matrix->name(), " has rank ", matrix->rank, " and lora_r is ", place.rank));
    if (std::fabs(adapter.scale(*matrix) - place.scale) > 1e-9 * place.scale)
      refuse(concat(matrix->name(), " has the scale ", adapter.scale(*matrix), ", and lora_alpha gives ", place.scale));
    write_matrix(*engine_, base_, place, *matrix);
  }
}

peft::Adapter Trainer::adapter() const {
  peft::Adapter adapter;
  adapter.alpha = settings_.lora_alpha;
  adapter.rank = settings_.lora_r;
  adapter.rslora = settings_.peft_use_rslora;
  adapter.dropout = settings_.lora_dropout;
  adapter.base_model = settings_.base_model;
  for (const models::AdapterPlace& place : engine_->layout().adapters) {
    peft::AdapterMatrix& matrix = adapter.matrices.emplace_back();
    matrix.layer = place.layer;
    matrix.target = target_of(place.part);
    matrix.rank = place.rank;
    matrix.inputs = place.inputs;
    matrix.outputs = place.outputs;
    matrix.a.resize(static_cast<std::size_t>(place.rank * place.inputs));
    matrix.b.resize(static_cast<std::size_t>(place.rank * place.outputs));
    engine_->read_trained(place.a, matrix.a);
    engine_->read_trained(place.b, matrix.b);
    matrix.b = in_file_order(base_, matrix.target, matrix.b, matrix.rank, false);
  }
  return adapter;
}

StepEvent Trainer::step(std::uint64_t number) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::vector<std::uint32_t>> micro = batch_of(number);
  StepEvent event;
  event.step = number + 1;
  event.steps = steps_;
  event.epoch = static_cast<double>(number + 1) / static_cast<double>(steps_of_epoch_);
  double weight = 0;
  for (const std::vector<std::uint32_t>& batch : micro) {
    for (const std::uint32_t example : batch) {
      weight += examples_.examples[example].weight();
      event.tokens += examples_.examples[example].ids.size();
      event.labels += examples_.examples[example].labelled();
    }
  }
  event.rate = training::f32_rate(schedule_, number);
  const auto loss_scale = static_cast<float>(state_.loss_scale);
  if (in_step_ == InStep::batch) engine_->clear();  // of a step that ended by an error
  in_step_ = InStep::batch;
  std::uint64_t done = state_.micro_batches;
  for (const std::vector<std::uint32_t>& batch : micro)
    engine_->accumulate(rows_of(examples_, batch, weight), static_cast<std::int32_t>(done++), loss_scale);
  in_step_ = InStep::update;
  const BatchNumbers numbers = engine_->update(static_cast<std::int32_t>(state_.updates + 1), static_cast<float>(event.rate), loss_scale);
  in_step_ = InStep::none;
  state_.micro_batches = done;
  state_.step = number + 1;
  state_.updates += numbers.finite ? 1 : 0;
  // While a scale is there to be halved, a batch that overflows is no fault of the run.
  state_.skipped_in_row = numbers.finite ? 0 : state_.skipped_in_row + (state_.loss_scale == 1 ? 1 : 0);
  if (settings_.precision == training::Precision::fp16) adjust_scale(state_, numbers.finite);
  state_.tokens += event.tokens;
  state_.labels += event.labels;
  event.loss = numbers.loss;
  event.gradient_norm = numbers.norm;
  event.skipped = state_.step - state_.updates;
  event.memory_bytes = engine_->statistics().in_use;
  event.seconds = seconds_since(start);
  return event;
}

void Trainer::require_whole_step() const {
  if (in_step_ == InStep::update)
    throw Error(
        QUERN_INVALID_ARGUMENT,
        concat("the update of step ", state_.step + 1,
               " ended by an error, so that the weights may be of neither step; go on from the last checkpoint with another trainer"));
}

EvaluationEvent Trainer::evaluate() {
  require_whole_step();
  if (validation_.examples.empty()) throw Error(QUERN_INVALID_ARGUMENT, "there is no validation set: give test_datasets or val_set_size");
  const DataLoss found = data_loss(*engine_, validation_, settings_.micro_batch_size);
  EvaluationEvent event;
  event.step = state_.step;
  event.loss = found.loss;
  event.labels = found.labels;
  event.seconds = found.seconds;
  return event;
}

bool Trainer::due(const training::Interval& interval, std::uint64_t step) const {
  switch (interval.when) {
    case training::When::never: return false;
    case training::When::epoch: return step % steps_of_epoch_ == 0 || step == steps_;
    case training::When::steps: {
      const double every = interval.steps < 1 ? std::ceil(interval.steps * static_cast<double>(steps_)) : interval.steps;
      return step % std::max<std::uint64_t>(1, static_cast<std::uint64_t>(every)) == 0;
    }
    case training::When::parts: return step * interval.parts / steps_of_epoch_ != (step - 1) * interval.parts / steps_of_epoch_;
  }
  return false;
}

TrainingEnd Trainer::run(std::uint64_t most_steps, const TrainingCallbacks& callbacks) {
  require_whole_step();
  cancelled_ = false;
  const std::uint64_t end = most_steps == 0 ? steps_ : std::min(steps_, state_.step + most_steps);
  std::uint64_t saved = UINT64_MAX;
  const auto keep = [&] {
    if (saved == state_.step) return;
    const std::string folder = save();
    saved = state_.step;
    if (callbacks.saved) callbacks.saved(folder, saved);
    try {
      rotate();
    } catch (const Error& error) {
      if (callbacks.warning) callbacks.warning(concat("an earlier checkpoint stays: ", error.what()));
    }
  };
  // A save that fails, of a full disk say, costs no step: the run goes on and the checkpoint before stays.
  const auto try_to_keep = [&] {
    try {
      keep();
    } catch (const Error& error) {
      if (callbacks.warning) callbacks.warning(concat("no checkpoint of step ", state_.step, ": ", error.what()));
    }
  };
  while (state_.step < end) {
    const StepEvent event = step(state_.step);
    bool go_on = !callbacks.step || callbacks.step(event);
    if (state_.skipped_in_row > most_skipped_in_row) return TrainingEnd::watchdog;
    if (settings_.loss_watchdog_threshold) {
      const bool below = event.loss <= *settings_.loss_watchdog_threshold;  // a loss that is no number is not
      state_.losses_above_watchdog = below ? 0 : state_.losses_above_watchdog + 1;
      if (state_.losses_above_watchdog >= settings_.loss_watchdog_patience) return TrainingEnd::watchdog;
    }
    bool early = false;
    if (settings_.has_validation() && due(settings_.evaluation, state_.step)) {
      EvaluationEvent evaluated = evaluate();
      evaluated.best = !state_.best_loss || evaluated.loss < *state_.best_loss;
      if (evaluated.best) {
        state_.best_loss = evaluated.loss;
        state_.best_step = state_.step;
        state_.evaluations_without_gain = 0;
      } else {
        ++state_.evaluations_without_gain;
      }
      early = settings_.early_stopping_patience && state_.evaluations_without_gain >= *settings_.early_stopping_patience;
      if (callbacks.evaluation) go_on = callbacks.evaluation(evaluated) && go_on;
      if (evaluated.best && settings_.load_best_model_at_end) try_to_keep();
    }
    if (due(settings_.saving, state_.step)) try_to_keep();
    if (early) return TrainingEnd::early_stopping;
    if (!go_on || cancelled_) {
      keep();
      return TrainingEnd::stopped;
    }
  }
  if (state_.step < steps_) return TrainingEnd::stopped;
  if (settings_.saving.when != training::When::never) try_to_keep();
  return TrainingEnd::steps;
}

bool Trainer::trains_all() const noexcept { return settings_.adapter == training::Adapter::none; }

void Trainer::write_trained(const std::string& folder) const {
  if (!trains_all()) return peft::write_folder(adapter(), folder);
  write_tuned_safetensors(folder, models::open_model(base_path_), base_, engine_->layout(),
                          [&](std::uint64_t first, std::span<float> numbers) { engine_->read_trained(first, numbers); });
}

void Trainer::read_trained(const std::string& folder) {
  if (!trains_all()) return write_adapter(peft::read_folder(folder));
  read_tuned_safetensors(folder, models::open_model(base_path_), base_, engine_->layout(),
                         [&](std::uint64_t first, std::span<const float> numbers) { engine_->write_trained(first, numbers); });
}

std::string Trainer::save() {
  require_whole_step();
  const Moments moments = {engine_->moments(), engine_->layout().elements,
                           [&](int which, std::uint64_t first, std::span<float> numbers) { engine_->read_moment(which, first, numbers); }};
  return write_checkpoint(settings_.output_dir, state_, moments, [&](const std::string& into) { write_trained(into); });
}

void Trainer::rotate() const {
  if (!settings_.save_total_limit) return;
  const bool best = settings_.load_best_model_at_end && state_.best_loss;
  rotate_checkpoints(settings_.output_dir, std::max(1u, *settings_.save_total_limit), state_.step,
                     best ? std::optional(state_.best_step) : std::nullopt);
}

void Trainer::write_result() {
  require_whole_step();
  if (settings_.load_best_model_at_end && state_.best_loss && state_.best_step != state_.step) {
    const std::string folder = checkpoint_folder(settings_.output_dir, state_.best_step);
    read_checkpoint(folder);  // that it is whole
    read_trained(folder);
  }
  check_written(base::make_folders(settings_.output_dir));
  if (!trains_all()) return write_trained(settings_.output_dir);
  write_tuned_gguf(concat(settings_.output_dir, "/model.gguf"), models::open_model(base_path_), engine_->layout(), QUERN_F16,
                   [&](std::uint64_t first, std::span<float> numbers) { engine_->read_trained(first, numbers); });
}

void Trainer::resume(const TrainingCallbacks& callbacks) {
  Checkpoint checkpoint;
  if (settings_.resume_last) {
    std::vector<std::string> refused;
    std::optional<Checkpoint> last = last_checkpoint(settings_.output_dir, refused);
    for (const std::string& why : refused)
      if (callbacks.warning) callbacks.warning(why);
    if (!last)
      throw Error(QUERN_NOT_FOUND,
                  concat(settings_.output_dir, " has no whole checkpoint to go on from; leave resume_from_checkpoint out"));
    checkpoint = std::move(*last);
  } else {
    checkpoint = read_checkpoint(settings_.resume_from_checkpoint);
  }
  const RunState& before = checkpoint.state;
  const auto same = [&](const std::string& then, const std::string& now, const char* what) {
    if (then != now)
      throw Error(QUERN_INVALID_ARGUMENT, concat(checkpoint.folder, " is of a run with other ", what,
                                                 ", so going on would be another run; begin anew in another output_dir, or restore them"));
  };
  same(before.base, state_.base, "base weights");
  same(before.data, state_.data, "data");
  same(before.settings, state_.settings, "settings");
  if (before.device != state_.device && callbacks.warning)
    callbacks.warning(concat(checkpoint.folder, " was made by ", before.device, ", and ", state_.device,
                             " continues it: bits will differ"));
  for (int which = 0; which < engine_->moments(); ++which)
    engine_->write_moment(which, 0, read_moment(checkpoint, which, engine_->layout().elements));
  read_trained(checkpoint.folder);
  state_ = before;
  state_.device = engine_->device_label();
}

std::string Trainer::settings_sum() const {
  // What changes neither a step nor its place in the run.
  training::Settings same = settings_;
  same.base_model.clear();
  same.datasets.clear();
  same.test_datasets.clear();
  same.output_dir.clear();
  same.resume_from_checkpoint.clear();
  same.lora_model_dir.clear();
  same.resume_last = false;
  same.evaluation = same.saving = {};
  same.save_total_limit.reset();
  same.early_stopping_patience.reset();
  same.loss_watchdog_threshold.reset();
  same.load_best_model_at_end = same.tensorboard = false;
  same.logging_steps = 1;
  same.gradient_checkpointing = training::Checkpointing::none;
  return sha256_of(concat(training::resolved_file(same), steps_));
}

}  // namespace quern::runtime
