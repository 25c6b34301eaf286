// What a trainer says of itself: its memory, the settings that would fit, its examples, its gradients.
#include "gradient_check.hpp"
#include "trainer.hpp"
#include "trainer_data.hpp"

#include "quern/graph/json_writer.hpp"
#include "quern/models/directory.hpp"

#include <algorithm>

namespace quern::runtime {
namespace {

std::uint64_t trained_parameters(const models::TrainedLayout& layout) {
  std::uint64_t count = 0;
  for (const models::AdapterPlace& adapter : layout.adapters)
    count += static_cast<std::uint64_t>(adapter.rank * (adapter.inputs + adapter.outputs));
  for (const models::TrainedTensor& tensor : layout.tensors) count += tensor.elements;
  return count;
}

}  // namespace

std::string Trainer::nearest_that_fits() const {
  // What changes no result comes first, then what changes none but the order of sums, then what leaves examples out.
  training::Settings tried = settings_;
  std::string words;
  const auto fits = [&](std::uint32_t sequence_len) { return compile(tried, sequence_len)->lack().empty(); };
  const auto found = [&](const std::string& change) { return concat("these settings fit: ", words, words.empty() ? "" : ", ", change); };
  for (const auto& [kind, word] : {std::pair(training::Checkpointing::selective, "selective"), {training::Checkpointing::full, "true"}}) {
    if (tried.gradient_checkpointing == training::Checkpointing::full || tried.gradient_checkpointing == kind) continue;
    tried.gradient_checkpointing = kind;
    const std::string change = concat("gradient_checkpointing: ", word);
    if (fits(sequence_len_)) return found(change);
    if (kind == training::Checkpointing::full) words = change;
  }
  while (tried.micro_batch_size > 1) {
    tried.micro_batch_size /= 2;
    tried.gradient_accumulation_steps =
        (settings_.gradient_accumulation_steps * settings_.micro_batch_size + tried.micro_batch_size - 1) / tried.micro_batch_size;
    const std::string change =
        concat("micro_batch_size: ", tried.micro_batch_size, ", gradient_accumulation_steps: ", tried.gradient_accumulation_steps);
    if (fits(sequence_len_)) return found(change);
    if (tried.micro_batch_size == 1) words = found(change).substr(std::string_view("these settings fit: ").size());
  }
  const std::vector<std::uint32_t> lengths = examples_.lengths();
  const std::uint32_t longest = std::min(sequence_len_, *std::ranges::max_element(lengths));
  const bool cut = settings_.excess_length_strategy == training::ExcessLength::truncate;
  const std::uint32_t least = std::max(16u, cut ? 0u : *std::ranges::min_element(lengths));  // else no example remains
  for (std::uint32_t length = longest / 2; length >= least; length /= 2)
    if (fits(length)) return found(concat("sequence_len: ", length));
  return "no smaller batch fits, since weights and trained state alone take too much; a base of fewer bits or a lower lora_r needs less";
}

TrainingMemory Trainer::memory() const {
  TrainingMemory memory = engine_->memory();
  for (const training::Dataset* data : {&examples_, &validation_})
    for (const training::Example& example : data->examples)
      memory.host += sizeof example + example.ids.size() * sizeof(std::int32_t) + example.labels.size() * sizeof(training::LabelSpan);
  memory.host += std::uint64_t{shape_.vocabulary} * 200;  // as estimate_file() has it
  // What a save reads: an adapter as a whole, and its copy as bytes; of a model a tensor at a time with its copy in f16.
  std::uint64_t largest = 0;
  for (const models::TrainedTensor& tensor : engine_->layout().tensors) largest = std::max(largest, tensor.elements);
  memory.host += trains_all() ? largest * (sizeof(float) + sizeof(std::uint16_t)) : 2 * engine_->layout().elements * sizeof(float);
  return memory;
}

std::string Trainer::json() const {
  JsonWriter json;
  json.begin_object();
  write_members(json);
  const MemoryStatistics statistics = engine_->statistics();
  json.member("memory_bytes", statistics.in_use);
  json.member("peak_bytes", statistics.peak);
  json.member("allocations", statistics.allocations);
  json.end_object();
  return json.take();
}

std::string Trainer::estimate_json() const {
  JsonWriter json;
  json.begin_object();
  write_members(json);
  const std::string lack = engine_->lack();
  json.member("fits", lack.empty());
  if (!lack.empty()) json.member("lack", concat(lack, "; ", nearest_that_fits()));
  json.end_object();
  return json.take();
}

void Trainer::write_members(JsonWriter& json) const {
  json.member("base", base_path_);
  json.member("device", engine_->device_label());
  write_precision_members(json, *engine_);
  json.member("step", state_.step);
  json.member("steps", steps_);
  json.member("steps_of_epoch", steps_of_epoch_);
  json.member("micro_batches_of_epoch", micro_batches_);
  json.member("skipped", state_.step - state_.updates);
  json.member("trained_parameters", trained_parameters(engine_->layout()));
  const TrainingMemory memory = this->memory();
  json.key("estimate");
  json.begin_object();
  json.member("weights_bytes", memory.weights);
  json.member("trained_bytes", memory.trained);
  json.member("activations_bytes", memory.activations);
  json.member("head_bytes", memory.head);
  json.member("evaluation_bytes", memory.evaluation);
  json.member("devices_bytes", memory.devices());
  json.member("host_bytes", memory.host);
  json.end_object();
  for (const auto& [name, data] : {std::pair("train", &examples_), {"validation", &validation_}}) {
    json.key(name);
    json.begin_object();
    write_data_members(json, *data);
    json.end_object();
  }
}

std::string Trainer::example_json(std::uint64_t index) const {
  if (index >= examples_.examples.size())
    throw Error(QUERN_NOT_FOUND, concat("example ", index, " was asked for, and there are ", examples_.examples.size()));
  const training::Example& example = examples_.examples[index];
  std::vector<float> weights(example.ids.size());
  example.fill_weights(weights);
  JsonWriter json;
  json.begin_object();
  json.member("source", examples_.where(example));
  json.member("ids", example.ids);
  json.key("weights");
  json.begin_array();
  for (const float weight : weights) json.value(static_cast<double>(weight));
  json.end_array();
  json.key("pieces");
  json.begin_array();
  for (std::size_t first = 0; first < weights.size();) {
    std::size_t end = first;
    while (end < weights.size() && (weights[end] > 0) == (weights[first] > 0)) ++end;
    std::string text;
    for (std::size_t i = first; i < end; ++i) text += vocabulary_->bytes_of(example.ids[i]).bytes;
    json.begin_object();
    json.member("text", text);
    json.member("counts", weights[first] > 0);
    json.end_object();
    first = end;
  }
  json.end_array();
  json.end_object();
  return json.take();
}

std::string Trainer::check_gradients_json() {
  if (engine_->rows() == QUERN_F32) return gradients_json(*engine_);
  // Rows of 16 bits round the loss by more than a small step changes it. So a run in f32 with the same numbers is looked at.
  training::Settings exact = settings_;
  exact.precision = training::Precision::float32;
  const std::unique_ptr<TrainingEngine> engine = compile(exact, sequence_len_);
  if (const std::string lack = engine->lack(); !lack.empty())
    throw Error(QUERN_DOES_NOT_FIT, concat("gradients are checked in f32, beside the run in ", graph::dtype_name(engine_->rows()), ": ",
                                           lack, "; float32: true checks them with the run's own memory"));
  engine->load(models::open_model(base_path_));
  std::vector<float> trained(engine_->layout().elements);
  engine_->read_trained(0, trained);
  engine->write_trained(0, trained);
  return gradients_json(*engine);
}

std::string Trainer::gradients_json(TrainingEngine& engine) const {
  const std::vector<std::vector<std::uint32_t>> micro = batch_of(0);
  double weight = 0;
  for (const std::vector<std::uint32_t>& batch : micro)
    for (const std::uint32_t example : batch) weight += examples_.examples[example].weight();
  const models::TrainedLayout& layout = engine.layout();
  GradientSource source;
  source.elements = layout.elements;
  for (const models::AdapterPlace& place : layout.adapters) {
    const auto elements = [&](std::int64_t width) { return static_cast<std::uint64_t>(place.rank * width); };
    const std::string name = concat("blk.", place.layer, ".", place.part);
    std::vector<float> b(elements(place.outputs));
    engine.read_trained(place.b, b);
    const bool b_is_zero = std::ranges::all_of(b, [](float x) { return x == 0; });
    source.tensors.push_back({concat(name, ".lora_a"), place.a, elements(place.inputs), b_is_zero});
    source.tensors.push_back({concat(name, ".lora_b"), place.b, elements(place.outputs), false});
  }
  for (const models::TrainedTensor& tensor : layout.tensors)
    source.tensors.push_back({tensor.tensor, tensor.first, tensor.elements, false});
  // Micro-batches keep their numbers, and so their dropout masks: each loss is of the same function.
  const auto accumulate = [&] {
    engine.clear();
    std::int32_t number = 0;
    for (const std::vector<std::uint32_t>& batch : micro) engine.accumulate(rows_of(examples_, batch, weight), number++);
  };
  source.loss = [&] {
    accumulate();
    return engine.loss();
  };
  source.gradient = [&](std::span<float> numbers) {
    accumulate();
    engine.read_gradient(0, numbers);
  };
  source.read = [&](std::span<float> numbers) { engine.read_trained(0, numbers); };
  source.write = [&](std::span<const float> numbers) { engine.write_trained(0, numbers); };
  source.update = [&] { engine.update(1, static_cast<float>(settings_.learning_rate)); };

  std::vector<float> trained(layout.elements);
  engine.read_trained(0, trained);
  std::vector<std::vector<float>> moments(static_cast<std::size_t>(engine.moments()), std::vector<float>(layout.elements));
  for (int which = 0; which < engine.moments(); ++which) engine.read_moment(which, 0, moments[static_cast<std::size_t>(which)]);
  const std::string before = engine.weights_sum();
  const GradientReport report = check_gradients(source);
  const std::string behind = engine.weights_sum();
  engine.clear();
  engine.write_trained(0, trained);
  for (int which = 0; which < engine.moments(); ++which) engine.write_moment(which, 0, moments[static_cast<std::size_t>(which)]);

  JsonWriter json;
  json.begin_object();
  json.member("passed", report.passed() && before == behind);
  json.member("device", engine.device_label());
  json.member("precision", graph::dtype_name(engine.rows()));
  json.member("weights_sha256", before);
  json.member("weights_unchanged", before == behind);
  json.member("tolerance", gradient_tolerance);
  json.key("tensors");
  json.begin_array();
  for (const TensorGradient& one : report.tensors) {
    json.begin_object();
    json.member("name", one.name);
    json.member("elements", one.elements);
    json.member("first_norm", one.first_norm);
    json.member("norm", one.norm);
    json.member("fault", one.fault);
    json.end_object();
  }
  json.end_array();
  json.key("directions");
  json.begin_array();
  for (const DirectionSlope& one : report.directions) {
    json.begin_object();
    json.member("tensors", one.tensors);
    json.member("slope", one.slope);
    json.member("difference", one.difference);
    json.member("step", one.step);
    json.member("right", one.right);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace quern::runtime
