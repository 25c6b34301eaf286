// See training_engine.hpp.
#include "training_engine.hpp"

#include "device_choice.hpp"
#include "tensor_conversion.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/graph/op_info.hpp"
#include "quern/graph/ops.hpp"
#include "quern/graph/sha256.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quern::runtime {
namespace {

constexpr std::uint32_t most_masked_rows = 8192;

models::TrainingOptions with_positions(models::TrainingOptions options, std::uint32_t max_tokens, bool backward) {
  options.max_tokens = max_tokens;
  options.rope_positions = max_tokens;
  options.backward = backward;
  if (!backward) {
    options.dropout = 0;
    options.checkpointing = graph::Checkpointing::none;
    // As many labels as rows, since none of them waits for a gradient.
    options.chunks = (max_tokens + options.chunk_labels - 1) / options.chunk_labels;
  }
  return options;
}

models::UpdateOptions with_scale(models::UpdateOptions update, const models::TrainingOptions& step) {
  update.scales_gradients = step.activations == QUERN_F16;
  return update;
}

std::uint32_t evaluation_tokens(const TrainingEngineOptions& options) {
  return options.evaluation_tokens != 0 ? options.evaluation_tokens : options.graph.max_tokens;
}

/// The option by which a node is one of op set 2; null: it is none.
bool* option_of(const graph::Graph& graph, const graph::Node& node, models::TrainingOptions& options) {
  const auto writes_over = [&](std::size_t input) {
    const graph::ValueId value = node.inputs.size() > input ? node.inputs[input] : graph::no_value;
    return value != graph::no_value && graph.root(value) == graph.root(node.outputs[0]);
  };
  switch (node.op) {
    case QUERN_OP_ATTENTION_RAGGED:
    case QUERN_OP_ATTENTION_RAGGED_BACKWARD: return &options.ragged;
    case QUERN_OP_MATMUL:
      if (graph::is_block_format(graph.value(node.inputs[1]).dtype) && graph::integer_attribute(node, QUERN_KEY_TRANSPOSE_B) != 0)
        return &options.backward_may_use.turned_blocks;
      return writes_over(3) ? &options.backward_may_use.sums_in_place : nullptr;
    case QUERN_OP_CROSS_ENTROPY_BACKWARD: return writes_over(0) ? &options.backward_may_use.logits_in_place : nullptr;
    default: return nullptr;
  }
}

/// What is done where an option is switched off.
std::string_view composed_instead(const bool* option, const models::TrainingOptions& options) {
  if (option == &options.ragged) return "attention looks at all pairs of rows of a micro-batch";
  if (option == &options.backward_may_use.turned_blocks) return "frozen weights are decoded for their gradients";
  if (option == &options.backward_may_use.sums_in_place) return "gradients of weights are made before they are added";
  return "gradients of logits take memory of their own";
}

/// Why f32 is taken on a kind of device; null: it has units for products of 16 bits.
const char* reason_for_f32(std::uint32_t device_class) {
  switch (device_class) {
    case QUERN_DEVICE_DISCRETE:
    case QUERN_DEVICE_UNIFIED:
    case QUERN_DEVICE_INTEGRATED: return nullptr;
    case QUERN_DEVICE_CPU: return " is a processor, where rows of 16 bits are no faster";
    case QUERN_DEVICE_SOFTWARE: return " computes in software, where rows of 16 bits are no faster";
    default: return " does not say what kind of device it is";
  }
}

struct NotComputed {
  const bool* option;
  std::string device, why;
};

/// Switches off what some device does not compute of op set 2 in this graph.
std::vector<NotComputed> switch_off(const std::vector<std::shared_ptr<MemoryBudget>>& devices, const graph::Graph& graph,
                                    models::TrainingOptions& options) {
  std::vector<NotComputed> lacks;
  for (const std::shared_ptr<MemoryBudget>& device : devices) {
    const std::vector<NodeAnswer> answers = ask_support(*device->device(), graph);
    for (std::size_t n = 0; n < answers.size(); ++n) {
      if (answers[n].yes) continue;
      bool* option = option_of(graph, graph.nodes()[n], options);
      // Another device computes the node, and what is written over lies on one device.
      if (option == nullptr) option = &options.backward_may_use.logits_in_place;
      if (!*option) continue;
      *option = false;
      lacks.push_back({option, device->device()->label(), concat(graph::op_name(graph.nodes()[n].op), ": ", answers[n].text)});
    }
  }
  return lacks;
}

}  // namespace

TrainingEngine::TrainingEngine(std::shared_ptr<Runtime> runtime, const gguf::File& file, models::Hyperparameters shape,
                               models::TrainedLayout layout, const TrainingEngineOptions& options)
    : runtime_(std::move(runtime)),
      shape_(std::move(shape)),
      layout_(std::move(layout)),
      options_(options),
      devices_(runtime_->devices()),
      step_graph_(build_step(file)),
      evaluation_graph_(models::build_training(shape_, file, layout_, with_positions(options_.graph, evaluation_tokens(options_), false))) {
  const Fallback fallback = runtime_->settings().fallback;
  const auto want = [&](Program& program, const std::vector<models::StepGraph::Weight>& weights) {
    for (WantedWeight& weight : wanted_weights(program, weights, file)) {
      const auto same = [&](const auto& one) { return one.second.place == weight.place; };
      if (std::ranges::none_of(wanted_, same)) wanted_.emplace_back(&program, std::move(weight));
    }
  };
  if (options.trains) {
    update_graph_ = models::build_update(layout_, with_scale(options.update, options.graph));
    step_ = std::make_unique<Program>(step_graph_->graph, devices_, fallback, "");
    want(*step_, step_graph_->weights);
  }
  evaluation_ = std::make_unique<Program>(evaluation_graph_.graph, devices_, fallback, "");
  want(*evaluation_, evaluation_graph_.weights);
  programs_[0] = evaluation_.get();
  if (!options.trains) return;
  update_ = std::make_unique<Program>(update_graph_->graph, devices_, fallback, "");
  programs_[1] = step_.get();
  programs_[2] = update_.get();
  update_->expect_shared(update_graph_->trained);
  update_->expect_shared(update_graph_->gradient);
  evaluation_->expect_shared(evaluation_graph_.trained);
  require_one_place();
}

void TrainingEngine::require_one_place() const {
  // An update writes to one place; what another device reads would keep its old numbers.
  const std::uint32_t device = update_->readers(update_graph_->trained).front();
  for (const auto& [program, state] : {std::pair(step_.get(), step_graph_->trained),
                                       {step_.get(), step_graph_->gradient},
                                       {evaluation_.get(), evaluation_graph_.trained},
                                       {update_.get(), update_graph_->gradient}}) {
    for (const std::uint32_t other : program->readers(state)) {
      if (other == device) continue;
      const std::string there = devices_[other]->device()->label(), here = devices_[device]->device()->label();
      throw Error(QUERN_UNSUPPORTED,
                  concat("what is trained has to lie on one device, but ", there, " computes a part of the ", program->graph().name(),
                         " and ", here, " the update; choose ", here, " alone as the device, or another one that computes all of it"));
    }
  }
}

std::optional<models::TrainingGraph> TrainingEngine::build_step(const gguf::File& file) {
  const std::uint32_t most_rows = options_.trains ? options_.graph.max_tokens : evaluation_tokens(options_);
  models::TrainingOptions& asked = options_.graph;
  const auto build = [&] {
    return models::build_training(shape_, file, layout_, with_positions(options_.graph, most_rows, options_.trains));
  };
  std::optional<models::TrainingGraph> graph;
  std::vector<NotComputed> lacks;
  const auto compose = [&] {
    asked.ragged = true;
    asked.backward_may_use = {.turned_blocks = true, .sums_in_place = true, .logits_in_place = options_.trains};
    graph = build();
    lacks = switch_off(devices_, graph->graph, asked);
    if (!lacks.empty()) graph = build();
  };
  for (bool chosen = false;;) {
    if (options_.rows_by_device) asked.activations = tries_bf16() ? QUERN_BF16 : QUERN_F32;
    compose();
    if (options_.rows_by_device && asked.activations == QUERN_BF16) {
      const std::vector<NodeAnswer> answers = ask_support(*devices_[0]->device(), graph->graph);
      const auto no = std::ranges::find(answers, false, &NodeAnswer::yes);
      if (no != answers.end()) {
        const graph::Node& node = graph->graph.nodes()[static_cast<std::size_t>(no - answers.begin())];
        reason_of_rows_ = concat(devices_[0]->device()->label(), " does not compute ", graph::op_name(node.op), " in bf16: ", no->text);
        asked.activations = QUERN_F32;
        compose();
      }
    }
    if (std::exchange(chosen, true)) break;
    DeviceChoice choice = choose_devices(*runtime_, graph->graph);
    if (choice.devices == devices_) break;
    if (!choice.reason.empty()) runtime_->log(QUERN_LOG_WARN, choice.reason);
    devices_ = std::move(choice.devices);
  }
  for (const NotComputed& lack : lacks) {
    const bool masked = lack.option == &asked.ragged;
    const std::uint32_t rows = std::max(asked.max_tokens, evaluation_tokens(options_));
    if (masked && rows > most_masked_rows)
      throw Error(QUERN_UNSUPPORTED, concat("a micro-batch may have ", rows, " rows, and ", most_masked_rows, " are possible on ",
                                            lack.device, ", where attention looks at all pairs of rows (", lack.why,
                                            "); lower micro_batch_size (and raise gradient_accumulation_steps) or sequence_len"));
    runtime_->log(QUERN_LOG_INFO, concat(lack.device, ": ", composed_instead(lack.option, asked), ": ", lack.why));
  }
  if (options_.rows_by_device)
    runtime_->log(QUERN_LOG_INFO, concat("rows are ", graph::dtype_name(asked.activations), ", since ", reason_of_rows_));
  if (!options_.trains) graph.reset();
  return graph;
}

bool TrainingEngine::tries_bf16() {
  const loader::Device& first = *devices_[0]->device();
  const char* reason = reason_for_f32(first.info().device_class);
  reason_of_rows_ = concat(first.label(), reason != nullptr ? reason : " is a graphics card");
  return reason == nullptr;
}

std::span<Program* const> TrainingEngine::programs() const noexcept { return std::span(programs_).first(options_.trains ? 3 : 1); }

void TrainingEngine::load(const gguf::File& file) {
  if (const std::string missing = lack(); !missing.empty()) throw Error(QUERN_DOES_NOT_FIT, missing);
  load_weights(file);
  if (options_.trains) {
    step_->prepare();
    update_->share(update_graph_->trained, *step_, step_graph_->trained);
    update_->share(update_graph_->gradient, *step_, step_graph_->gradient);
    update_->prepare();
    evaluation_->share(evaluation_graph_.trained, *step_, step_graph_->trained);
  }
  evaluation_->prepare();
  write_rope_table(file);
  for (const models::TrainedTensor& tensor : layout_.tensors) load_trained(file, tensor);
}

void TrainingEngine::load_trained(const gguf::File& file, const models::TrainedTensor& tensor) {
  // In parts, so that loading needs little more than the run.
  constexpr std::uint64_t most_numbers = 1 << 20;
  std::uint64_t at = tensor.first;
  std::vector<float> numbers;
  convert_tensor(
      devices_, file, file.require_tensor(tensor.tensor), QUERN_F32,
      [&](std::span<const std::byte> bytes) {
        for (; !bytes.empty(); bytes = bytes.subspan(numbers.size() * sizeof(float))) {
          numbers.resize(std::min(most_numbers, bytes.size() / sizeof(float)));
          std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
          write_trained(at, numbers);
          at += numbers.size();
        }
      },
      most_numbers);
}

std::uint64_t TrainingEngine::weights_bytes(std::uint32_t device) const {
  std::uint64_t bytes = 0;
  for (const auto& [program, weight] : wanted_) bytes += weight.place.device == device ? weight.bytes : 0;
  return bytes;
}

TrainingMemory TrainingEngine::memory() const {
  TrainingMemory memory;
  for (std::uint32_t d = 0; d < devices_.size(); ++d) memory.weights += weights_bytes(d);
  memory.evaluation = evaluation_->needs().total();
  const std::uint64_t rows = std::max(options_.graph.max_tokens, evaluation_tokens(options_));
  memory.host = options_.graph.ragged ? 2 * rows * sizeof(std::int32_t) : rows * rows * sizeof(float);  // before they are copied
  if (!options_.trains) return memory;
  const ProgramNeeds step = step_->needs(), update = update_->needs();
  const std::uint64_t flat = layout_.elements * sizeof(float) * step_->readers(step_graph_->trained).size() * 2;
  memory.trained = flat + update.state;
  memory.activations = step.total() - flat + update.total() - update.state;
  const graph::OpSet2& asked = options_.graph.backward_may_use;
  memory.head = std::min(step.scratch,
                         std::uint64_t{asked.logits_in_place ? 1u : 2u} * options_.graph.chunk_labels * shape_.vocabulary * sizeof(float));
  return memory;
}

std::string TrainingEngine::lack() const {
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    std::uint64_t needed = weights_bytes(d);
    for (const Program* program : programs()) needed += program->needs(d).total();
    const std::optional<std::uint64_t> available = room_on(*devices_[d]).available;
    if (!available || needed <= *available) continue;
    const auto [there, asked] = byte_words_apart(*available, needed);
    return concat(options_.trains ? "training" : "the evaluation", " needs ", asked, " on ", devices_[d]->device()->label(), " (weights ",
                  byte_words(weights_bytes(d)), "), and ", there, " are available");
  }
  return {};
}

void TrainingEngine::load_weights(const gguf::File& file) {
  for (const auto& [program, weight] : wanted_) {
    const gguf::TensorInfo& tensor = file.require_tensor(weight.place.tensor);
    const gguf::TensorBytes read = file.read(tensor);
    const std::span<const std::byte> data = read.bytes();
    Memory& memory =
        weights_.emplace_back(devices_[weight.place.device]->allocate(weight.bytes, QUERN_USAGE_WEIGHTS, weight.place.tensor.c_str()));
    PackingRoom room(devices_[weight.place.device]);
    if (weight.value != graph::no_value) program->pack(weight.value, weight.place.device, data, memory.span(), room);
    else memory.write(0, data);
    room.wait();
    places_[weight.place] = memory.span();
    file.drop_pages(tensor);
  }
  if (options_.trains) bind(*step_, step_graph_->weights, file);
  bind(*evaluation_, evaluation_graph_.weights, file);
}

void TrainingEngine::bind(Program& program, const std::vector<models::StepGraph::Weight>& weights, const gguf::File& file) {
  for (const models::StepGraph::Weight& weight : weights) {
    for (const std::uint32_t device : program.readers(weight.value)) {
      const PackedWeight* packed = program.packed(weight.value, device);
      const auto found = places_.find({weight.tensor, device, packed != nullptr ? packed->layout : ""});
      if (found == places_.end())
        throw Error(QUERN_INTERNAL, concat(file.require_tensor(weight.tensor).name, " was not loaded for ", program.graph().name()));
      program.bind_constant(weight.value, device, found->second);
    }
  }
}

void TrainingEngine::write_rope_table(const gguf::File& file) {
  std::vector<std::tuple<Program*, graph::ValueId, std::uint32_t>> tables = {
      {evaluation_.get(), evaluation_graph_.rope_table, evaluation_tokens(options_)}};
  if (options_.trains) tables.emplace_back(step_.get(), step_graph_->rope_table, options_.graph.max_tokens);
  for (const auto& [program, table, positions] : tables) {
    const models::RopeGraph rope = models::build_rope(shape_, positions);
    Program made(rope.graph, devices_, Fallback::automatic, "");
    std::vector<Memory> factors;
    if (rope.factors != graph::no_value) {
      const gguf::TensorBytes read = file.read(file.require_tensor("rope_freqs.weight"));
      const std::span<const std::byte> data = read.bytes();
      for (const std::uint32_t device : made.readers(rope.factors)) {
        factors.push_back(devices_[device]->allocate(data.size(), QUERN_USAGE_WEIGHTS, "rope_freqs.weight"));
        factors.back().write(0, data);
        made.bind_constant(rope.factors, device, factors.back().span());
      }
    }
    made.prepare();
    made.run({});
    const graph::Value& value = made.graph().value(rope.table);
    std::vector<std::byte> bytes(graph::byte_size(value.dtype, value.shape));
    made.read(rope.table, 0, bytes);
    program->write(table, 0, bytes);
  }
}

/// `numbers` is contiguous.
template <typename Numbers>
void TrainingEngine::put(Program& program, graph::ValueId value, const Numbers& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  program.write(value, 0, bytes);
  bytes_in_ += bytes.size();
}

template <typename T>
void TrainingEngine::take(const Program& program, graph::ValueId value, T& number) const {
  program.read(value, 0, std::as_writable_bytes(std::span(&number, 1)));
  bytes_out_ += sizeof number;
}

void TrainingEngine::run(Program& program, const models::TrainingGraph& graph, const MicroBatch& batch, std::int32_t number) {
  const auto most = static_cast<std::size_t>(graph.graph.value(graph.token).shape[0].size);
  const std::size_t rows = batch.tokens.size();
  const auto chunk = static_cast<std::size_t>(graph.graph.value(graph.chunks.front().row).shape[0].size);
  if (rows == 0 || rows > most || batch.labels.size() > chunk * graph.chunks.size() || batch.labels.size() != batch.label_rows.size() ||
      batch.labels.size() != batch.label_weights.size())
    throw Error(QUERN_INTERNAL, concat("a micro-batch of ", rows, " rows and ", batch.labels.size(), " labels; the plan has ", most,
                                       " rows and ", chunk * graph.chunks.size(), " labels"));
  const bool masked = graph.mask != graph::no_value;
  positions_.clear();
  starts_.clear();
  if (masked) mask_.assign(rows * most, -std::numeric_limits<float>::infinity());
  for (std::size_t e = 0; e < batch.starts.size(); ++e) {
    const std::size_t first = batch.starts[e], end = e + 1 < batch.starts.size() ? batch.starts[e + 1] : rows;
    starts_.push_back(static_cast<std::int32_t>(first));
    for (std::size_t row = first; row < end; ++row) {
      positions_.push_back(static_cast<std::int32_t>(row - first));
      if (masked) std::fill_n(mask_.begin() + static_cast<std::ptrdiff_t>(row * most + first), end - first, 0.0f);
    }
  }
  starts_.push_back(static_cast<std::int32_t>(rows));
  if (positions_.size() != rows) throw Error(QUERN_INTERNAL, "the examples of a micro-batch do not cover its rows");
  put(program, graph.token, batch.tokens);
  put(program, graph.position, positions_);
  if (masked) put(program, graph.mask, mask_);
  else put(program, graph.start, starts_);
  if (graph.seed != graph::no_value) {
    put(program, graph.seed, options_.seed);
    put(program, graph.dropout_step, std::span(&number, 1));
  }
  bounds_.clear();
  bounds_.push_back({graph.tokens, static_cast<std::int64_t>(rows)});
  if (!masked) bounds_.push_back({graph.starts, static_cast<std::int64_t>(starts_.size())});
  std::size_t done = 0;
  for (const models::TrainingGraph::Chunk& one : graph.chunks) {
    const std::size_t count = std::min(chunk, batch.labels.size() - done);
    put(program, one.row, std::span(batch.label_rows).subspan(done, count));
    put(program, one.label, std::span(batch.labels).subspan(done, count));
    put(program, one.weight, std::span(batch.label_weights).subspan(done, count));
    bounds_.push_back({one.labels, static_cast<std::int64_t>(count)});
    done += count;
  }
  program.run(bounds_);
}

TrainingEngine::Traffic TrainingEngine::traffic() const noexcept {
  Traffic sum{bytes_in_, bytes_out_, 0};
  for (const Program* program : programs()) sum.between_devices += program->bytes_moved();
  return sum;
}

template <typename Work>
void TrainingEngine::traced(const char* name, const MicroBatch* batch, const Work& work) {
  if (trace_ == nullptr) return work();
  const double start = trace_->now();
  const Traffic before = traffic();
  work();
  const Traffic after = traffic();
  std::vector<TraceCount> counts;
  if (batch != nullptr) counts = {{"rows", batch->tokens.size()}, {"examples", batch->starts.size()}, {"labels", batch->labels.size()}};
  counts.push_back({"bytes_to_devices", after.to_devices - before.to_devices});
  counts.push_back({"bytes_from_devices", after.from_devices - before.from_devices});
  counts.push_back({"bytes_between_devices", after.between_devices - before.between_devices});
  trace_->add(name, 0, start, std::move(counts));
}

void TrainingEngine::start_trace() {
  trace_ = std::make_unique<Trace>();
  for (Program* program : programs()) program->record(trace_.get());
}

std::unique_ptr<Trace> TrainingEngine::take_trace() noexcept {
  for (Program* program : programs()) program->record(nullptr);
  return std::move(trace_);
}

void TrainingEngine::accumulate(const MicroBatch& batch, std::int32_t number, float loss_scale) {
  traced("micro-batch", &batch, [&] {
    if (step_graph_->loss_scale != graph::no_value) put(*step_, step_graph_->loss_scale, std::span(&loss_scale, 1));
    run(*step_, *step_graph_, batch, number);
  });
}

BatchNumbers TrainingEngine::update(std::int32_t step, float rate, float loss_scale) {
  BatchNumbers numbers;
  traced("update", nullptr, [&] {
    if (update_graph_->loss_scale == graph::no_value) loss_scale = 1;
    else put(*update_, update_graph_->loss_scale, std::span(&loss_scale, 1));
    put(*update_, update_graph_->step, std::span(&step, 1));
    put(*update_, update_graph_->rate, std::span(&rate, 1));
    update_->run({});
    std::int32_t finite = 0;
    take(*update_, update_graph_->norm, numbers.norm);
    take(*update_, update_graph_->finite, finite);
    numbers.loss = static_cast<float>(loss());
    numbers.norm /= loss_scale;
    numbers.finite = finite != 0;
    forget_loss();
  });
  return numbers;
}

double TrainingEngine::loss() const {
  float loss = 0;
  take(*step_, step_graph_->loss, loss);
  return loss;
}

void TrainingEngine::forget_loss() {
  constexpr float none = 0;
  put(*step_, step_graph_->loss, std::span(&none, 1));
}

void TrainingEngine::clear() {
  forget_loss();
  const std::vector<float> zeros(std::min<std::uint64_t>(layout_.elements, 1 << 20));
  for (std::uint64_t at = 0; at < layout_.elements; at += zeros.size()) {
    const std::span<const float> part = std::span(zeros).first(std::min<std::uint64_t>(zeros.size(), layout_.elements - at));
    step_->write(step_graph_->gradient, at * sizeof(float), std::as_bytes(part));
  }
}

std::string TrainingEngine::weights_sum() const {
  Sha256 sum;
  std::vector<std::byte> part;
  for (const Memory& weight : weights_) {
    for (std::uint64_t at = 0; at < weight.bytes(); at += part.size()) {
      part.resize(std::min<std::uint64_t>(1 << 20, weight.bytes() - at));
      weight.read(at, part);
      sum.add(part);
    }
  }
  return sum.finish();
}

double TrainingEngine::evaluate(const MicroBatch& batch) {
  float loss = 0;
  traced("evaluation", &batch, [&] {
    put(*evaluation_, evaluation_graph_.loss, std::span(&loss, 1));
    run(*evaluation_, evaluation_graph_, batch, 0);
    take(*evaluation_, evaluation_graph_.loss, loss);
  });
  return loss;
}

void TrainingEngine::read_trained(std::uint64_t first, std::span<float> numbers) const {
  step_->read(step_graph_->trained, first * sizeof(float), std::as_writable_bytes(numbers));
}

void TrainingEngine::write_trained(std::uint64_t first, std::span<const float> numbers) {
  Program& holder = options_.trains ? *step_ : *evaluation_;
  holder.write(options_.trains ? step_graph_->trained : evaluation_graph_.trained, first * sizeof(float), std::as_bytes(numbers));
}

void TrainingEngine::read_gradient(std::uint64_t first, std::span<float> numbers) const {
  step_->read(step_graph_->gradient, first * sizeof(float), std::as_writable_bytes(numbers));
}

int TrainingEngine::moments() const noexcept {
  return (update_graph_->first_moment != graph::no_value ? 1 : 0) + (update_graph_->second_moment != graph::no_value ? 1 : 0);
}

graph::ValueId TrainingEngine::moment(int which) const {
  if (which < 0 || which >= moments()) throw Error(QUERN_INTERNAL, concat("moment ", which, " of ", moments()));
  return which == 0 ? update_graph_->first_moment : update_graph_->second_moment;
}

void TrainingEngine::read_moment(int which, std::uint64_t first, std::span<float> numbers) const {
  update_->read(moment(which), first * sizeof(float), std::as_writable_bytes(numbers));
}

void TrainingEngine::write_moment(int which, std::uint64_t first, std::span<const float> numbers) {
  update_->write(moment(which), first * sizeof(float), std::as_bytes(numbers));
}

void TrainingEngine::cancel() noexcept {
  for (Program* program : programs()) program->cancel();
}

void TrainingEngine::clear_cancel() noexcept {
  for (Program* program : programs()) program->clear_cancel();
}

std::string TrainingEngine::device_label() const {
  const std::vector<DeviceShare> shares = step_program().shares();
  return std::ranges::max_element(shares, {}, &DeviceShare::nodes)->device;
}

MemoryStatistics TrainingEngine::statistics() const {
  MemoryStatistics all;
  for (const auto& device : devices_) {
    const MemoryStatistics one = device->statistics();
    all.in_use += one.in_use;
    all.peak += one.peak;
    all.allocations += one.allocations;
  }
  return all;
}

}  // namespace quern::runtime
