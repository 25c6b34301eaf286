// See model.hpp.
#include "model.hpp"

#include "act_order.hpp"
#include "adapters.hpp"
#include "parallel.hpp"
#include "tensors_ahead.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/models/directory.hpp"

#include <algorithm>
#include <deque>
#include <iterator>

namespace quern::runtime {
namespace {

/// FNV-1a, for fingerprints: not a defence against forgery, only against mistakes.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) value_ = (value_ ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ull;
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

/// Those of one device, in order.
std::vector<WantedWeight> weights_on(const std::vector<WantedWeight>& wanted, std::uint32_t device) {
  std::vector<WantedWeight> here;
  std::ranges::copy_if(wanted, std::back_inserter(here), [&](const WantedWeight& w) { return w.place.device == device; });
  return here;
}

/// Memory::write behind what `queue` has, and by several threads where the arena is host memory, which one would fill at the speed of page faults.
void write_on_threads(DeviceQueue& queue, Memory& arena, std::uint64_t offset, std::span<const std::byte> from, std::uint32_t threads) {
  constexpr std::uint64_t piece = 4 << 20;
  if (arena.host() == nullptr) return arena.write(queue, offset, from);
  in_parallel(threads, (from.size() + piece - 1) / piece, [&](std::uint64_t i) {
    arena.write(offset + i * piece, from.subspan(i * piece, std::min<std::uint64_t>(piece, from.size() - i * piece)));
  });
}

bool only_cpus(const std::vector<std::shared_ptr<MemoryBudget>>& devices) {
  return std::ranges::all_of(devices, [](const auto& d) { return d->device()->info().device_class == QUERN_DEVICE_CPU; });
}

}  // namespace

std::uint64_t fingerprint_of(const gguf::File& file, const models::Hyperparameters& shape) {
  Fingerprint print;
  print.add(shape.architecture);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    print.add(tensor.name);
    print.add(tensor.dtype);
    for (const std::uint64_t d : tensor.dims) print.add(d);
    for (const std::span<const std::byte> data : file.lying(tensor)) {
      print.add(data.first(std::min<std::size_t>(data.size(), 512)));
      print.add(data.last(std::min<std::size_t>(data.size(), 512)));
    }
  }
  return print.value();
}

const gguf::TensorInfo* of_most_used_format(const gguf::File& file) {
  std::map<quern_dtype, std::uint64_t> elements;
  const gguf::TensorInfo* best = nullptr;
  for (const gguf::TensorInfo& tensor : file.tensors()) elements[tensor.dtype] += tensor.elements();
  for (const gguf::TensorInfo& tensor : file.tensors())
    if (best == nullptr || elements[tensor.dtype] > elements[best->dtype]) best = &tensor;
  return best;
}

std::uint32_t allowed_conversions(bool exact) noexcept {
  return exact ? QUERN_CONVERT_NONE : QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
}

std::uint32_t rows_of_step(const models::Hyperparameters& model, const gguf::File& file,
                           const std::vector<std::shared_ptr<MemoryBudget>>& devices, std::uint32_t sequences, std::uint32_t context,
                           quern_dtype kv_dtype) {
  const std::uint32_t least = std::max(step_rows, sequences);
  const auto available = room_on(*devices[0]).available;
  if (devices[0]->device()->info().device_class != QUERN_DEVICE_DISCRETE || !available) return least;
  double needed = static_cast<double>(file.file_bytes()) * 1.1;
  const double kv_heads = model.kv_heads, heads = model.heads, key = model.head_size, value = model.value_size;
  const graph::BlockSize kv = graph::block_size(kv_dtype);
  needed +=
      kv_heads * (key + value) * model.layers * context * sequences * static_cast<double>(kv.bytes) / static_cast<double>(kv.elements);
  // A row between products: the residual stream twice, queries, keys and values before and after their rotation, gate, up and their product.
  const double row = 4.0 * (2.0 * model.hidden + 2.0 * (heads + kv_heads) * (key + value) + 4.0 * model.ffn);
  for (std::uint32_t rows = most_step_rows; rows > least; rows /= 2)
    if (rows / 2 < static_cast<std::uint64_t>(context) * sequences && needed + row * rows <= static_cast<double>(*available)) return rows;
  return least;
}

std::uint32_t step_determinism(const Runtime& runtime, const std::vector<std::shared_ptr<MemoryBudget>>& devices) {
  return only_cpus(devices) || runtime.settings().loader.deterministic.value ? QUERN_DETERMINISM_INVARIANT : QUERN_DETERMINISM_REPEATABLE;
}

models::StepOptions step_options(std::uint32_t rows, std::uint32_t sequences, std::uint32_t context, quern_dtype kv_dtype, bool exact,
                                 const Runtime& runtime, const std::vector<std::shared_ptr<MemoryBudget>>& devices, bool hidden_output) {
  models::StepOptions options;
  options.hidden_output = hidden_output;
  options.max_tokens = rows;
  options.max_sequences = sequences;
  options.max_outputs = std::max(8u, sequences);
  options.page_size = kv_page_size;
  options.pages_per_sequence = (context + kv_page_size - 1) / kv_page_size;
  options.pages = options.pages_per_sequence * sequences;
  options.rope_positions = context;
  options.kv_dtype = kv_dtype;
  options.conversions = allowed_conversions(exact);
  options.history = context;
  options.determinism = step_determinism(runtime, devices);
  options.early_outputs = only_cpus(devices);
  return options;
}

PlacedStep place_best(Runtime& runtime, const gguf::File& file, const models::Hyperparameters& shape, std::uint32_t context,
                      const ModelOptions& options) {
  const std::uint32_t sequences = std::max(1u, options.sequences);
  PlacedStep placed;
  const auto build = [&] {
    const std::vector<std::shared_ptr<MemoryBudget>>& devices = placed.choice.devices;
    placed.rows = rows_of_step(shape, file, devices, sequences, context, options.kv_dtype);
    placed.options = step_options(placed.rows, sequences, context, options.kv_dtype, options.exact, runtime, devices, options.embeddings);
    placed.options.operand_sums = options.operand_sums;
    placed.options.early_outputs &= !options.operand_sums;  // all rows count
    add_adapters(placed.options, options.adapters, shape);
    placed.graph = std::make_unique<models::StepGraph>(models::build_step(shape, file, placed.options));
  };
  placed.choice.devices = runtime.devices();
  build();
  DeviceChoice choice = choose_devices(runtime, placed.graph->graph);
  const bool another = choice.devices != placed.choice.devices;
  placed.choice = std::move(choice);
  if (another) build();
  return placed;
}

std::shared_ptr<const Model> Model::load(std::shared_ptr<Runtime> runtime, const std::string& path, const ModelOptions& options) {
  const gguf::File file = open_for_devices(*runtime, path);
  std::shared_ptr<Model> model(new Model);
  model->path_ = path;
  model->file_bytes_ = file.file_bytes();
  for (const gguf::Note& note : file.notes())
    if (note.warns) runtime->log(QUERN_LOG_WARN, concat(path, ": ", note.text));
  model->shape_ = models::read_hyperparameters(file);
  model->vocabulary_ = std::make_unique<Vocabulary>(file, options.tokenizer_pre);
  if (const std::string& warning = model->vocabulary_->warning(); !warning.empty())
    runtime->log(QUERN_LOG_WARN, concat(path, ": ", warning));
  if (static_cast<std::uint32_t>(model->vocabulary_->tokenizer().size()) > model->shape_.vocabulary) {
    throw Error(QUERN_BAD_MODEL, concat(path, ": the vocabulary has ", model->vocabulary_->tokenizer().size(),
                                        " tokens but 'token_embd.weight' has ", model->shape_.vocabulary, " rows"));
  }
  if (const auto name = file.find_string("general.name")) model->name_ = std::string(*name);
  if (const gguf::TensorInfo* most = of_most_used_format(file); most != nullptr) {
    model->main_format_ = gguf::type_name(most->dtype);
    model->main_dtype_ = most->dtype;
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) model->parameters_ += tensor.parameters();
  model->fingerprint_ = fingerprint_of(file, model->shape_);

  if (options.context > model->shape_.context) {
    throw Error(QUERN_CONTEXT_FULL,
                concat(path, ": a context of ", options.context, " was asked for, but the model has ", model->shape_.context));
  }
  model->context_ = static_cast<std::uint32_t>(options.context != 0 ? options.context : std::min(model->shape_.context, default_context));
  model->sequences_ = std::max(1u, options.sequences);
  model->exact_ = options.exact;
  model->kv_dtype_ = options.kv_dtype;
  PlacedStep placed = place_best(*runtime, file, model->shape_, model->context_, options);
  model->devices_ = std::move(placed.choice.devices);
  model->passed_over_ = std::move(placed.choice.reason);
  model->runtime_ = std::move(runtime);
  model->step_rows_ = placed.rows;
  model->adapters_ = placed.options.adapters;
  model->step_ = std::move(placed.graph);
  model->rope_ = std::make_unique<models::RopeGraph>(models::build_rope(model->shape_, model->context_));
  model->load_weights(file, options);
  return model;
}

void Model::load_weights(const gguf::File& file, const ModelOptions& options) {
  std::vector<WantedWeight> wanted;
  const std::unique_ptr<Program> program = place_step(file, wanted);
  cuts_ = program->cuts();
  shares_ = program->shares();
  if (runtime_->settings().fallback == Fallback::warn && assignment_.first_device_of_node.empty()) {
    for (const Cut& cut : cuts_) {
      runtime_->log(QUERN_LOG_DEBUG, concat("'", cut.value, "' goes from ", cut.from, " to ", cut.to, ": ", cut.reason));
    }
    if (!cuts_.empty()) {
      runtime_->log(QUERN_LOG_WARN, concat(path_, ": ", devices_[0]->device()->label(), " does not compute the whole model: ", cuts_.size(),
                                           " values cross between devices in each step (", cuts_[0].reason, ")"));
    }
  }
  if (!passed_over_.empty()) runtime_->log(QUERN_LOG_WARN, concat(path_, ": ", passed_over_));

  weight_shares_.resize(devices_.size());
  for (std::uint32_t d = 0; d < devices_.size(); ++d) weight_shares_[d].device = d;
  for (const WantedWeight& weight : wanted) weight_shares_[weight.place.device].bytes += weight.arena_bytes();
  std::erase_if(weight_shares_, [](const WeightShare& share) { return share.bytes == 0; });

  WeightsCache cache(*runtime_, file, fingerprint_);
  find_arenas(cache, wanted);
  fill_arenas(*program, file, wanted, options);
  for (WeightShare& share : weight_shares_) {
    if (share.origin.cached) continue;
    auto writer = cache.keep(*devices_[share.device], weights_on(wanted, share.device), arenas_[share.device].front(), share.origin);
    if (writer) writers_.push_back(std::move(*writer));
  }

  std::vector<bool> read_whole(step_->graph.values().size());  // by a node that gathers no rows
  for (const graph::Node& node : step_->graph.nodes()) {
    if (node.op == QUERN_OP_GET_ROWS) continue;
    for (const graph::ValueId input : node.inputs)
      if (input != graph::no_value) read_whole[input] = true;
  }
  for (const models::StepGraph::Weight& weight : step_->weights)
    if (read_whole[weight.value]) step_weight_bytes_ += file.require_tensor(weight.tensor).bytes;
}

void Model::find_arenas(WeightsCache& cache, const std::vector<WantedWeight>& wanted) {
  for (WeightShare& share : weight_shares_) {
    MemoryBudget& device = *devices_[share.device];
    std::optional<Memory> mapped = cache.find(device, weights_on(wanted, share.device), share.origin);
    std::vector<Memory>& arenas = arenas_[share.device];
    arenas.clear();
    if (mapped) {
      arenas.push_back(std::move(*mapped));
      continue;
    }
    const std::uint64_t largest = device.host_memory() ? 0 : device.device()->info().max_allocation;
    for (const std::uint64_t bytes : arena_sizes(wanted, share.device, largest))
      arenas.push_back(device.allocate(bytes, QUERN_USAGE_WEIGHTS, "weights"));
  }
}

/// Gives each weight its place, and writes it there unless the arena came filled.
void Model::fill_arenas(const Program& program, const gguf::File& file, const std::vector<WantedWeight>& wanted,
                        const ModelOptions& options) {
  std::uint64_t done = 0, total = 0;
  for (const WantedWeight& weight : wanted) total += file.require_tensor(weight.place.tensor).bytes;
  const auto advance = [&](std::uint64_t bytes) {
    done += bytes;
    if (options.progress && !options.progress(done, total)) throw Error(QUERN_CANCELLED, concat(path_, ": loading was cancelled"));
  };
  std::map<std::uint32_t, bool> filled;
  for (const WeightShare& share : weight_shares_) filled[share.device] = share.origin.cached;
  struct Place {
    std::size_t arena = 0;
    std::uint64_t offset = 0;
  };
  std::map<std::uint32_t, Place> places;  // of the next weight of each device
  std::vector<const gguf::TensorInfo*> unfilled;
  for (const WantedWeight& weight : wanted)
    if (!filled[weight.place.device]) unfilled.push_back(&file.require_tensor(weight.place.tensor));
  const auto making = only_cpus(devices_) ? TensorsAhead::Making::between_uses : TensorsAhead::Making::beside_use;
  TensorsAhead ahead(file, std::move(unfilled), runtime_->threads(), making);
  std::deque<PackingRoom> rooms;  // of each device
  for (const std::shared_ptr<MemoryBudget>& device : devices_) rooms.emplace_back(device);
  const auto wait_for_packing = [&] {
    for (PackingRoom& room : rooms) room.wait();
  };
  for (const WantedWeight& weight : wanted) {
    const gguf::TensorInfo& tensor = file.require_tensor(weight.place.tensor);
    std::vector<Memory>& arenas = arenas_[weight.place.device];
    Place& next = places[weight.place.device];
    if (arenas[next.arena].bytes() - next.offset < weight.arena_bytes()) next = {next.arena + 1, 0};
    Memory& arena = arenas.at(next.arena);
    std::uint64_t& offset = next.offset;
    const bool packed = weight.value != graph::no_value;
    if (packed) integer_products_ |= graph::block_size(step_->graph.value(weight.value).dtype).elements > 1;
    if (!filled[weight.place.device] && ahead.turns()) wait_for_packing();  // of what is gone then
    if (filled[weight.place.device]) {
      advance(tensor.bytes);
    } else if (const std::span<const std::byte> read = ahead.next(); packed) {
      program.pack(weight.value, weight.place.device, read, arena.span(offset, weight.bytes), rooms[weight.place.device]);
      advance(tensor.bytes);
    } else {
      constexpr std::size_t piece = 64 << 20;  // so that progress moves and a cancel is heard
      for (std::size_t at = 0; at < tensor.bytes; at += piece) {
        const std::span<const std::byte> part = read.subspan(at, std::min<std::size_t>(piece, tensor.bytes - at));
        write_on_threads(devices_[weight.place.device]->queue(), arena, offset + at, part, runtime_->threads());
        advance(part.size());
      }
    }
    file.drop_pages(tensor);
    tensors_[weight.place] = arena.span(offset, weight.bytes);
    offset += weight.arena_bytes();
  }
  wait_for_packing();
}

/// Compiles the step and sees to it that it fits: layers that the first device has no room for go to the others. Throws before anything
/// large is allocated.
std::unique_ptr<Program> Model::place_step(const gguf::File& file, std::vector<WantedWeight>& wanted) {
  const Fallback fallback = runtime_->settings().fallback;
  const auto make = [&] {
    auto program = std::make_unique<Program>(step_->graph, devices_, fallback, "", assignment_, run_ahead_of(*step_));
    wanted = wanted_weights(*program, *step_, *rope_, file);
    return program;
  };
  std::unique_ptr<Program> program = make();
  std::optional<Lack> lack = find_lack(*program, *step_, wanted);
  if (!lack) return program;
  if (devices_.size() == 1 || fallback == Fallback::strict) refuse(*program, wanted, *lack);

  const auto [there, needed] = byte_words_apart(lack->available, lack->needed());
  const std::string why = concat(devices_[lack->device]->device()->label(), " has ", there, " available and ", needed, " are needed");
  std::vector<std::optional<std::uint64_t>> available;
  for (const auto& device : devices_) available.push_back(room_on(*device).available);
  const LayerBytes layers = layer_bytes(*program, *step_, wanted);
  LayerSplit split = split_layers(layers, available);
  for (;;) {
    assignment_ = assign_layers(*step_, split, why);
    program = make();
    lack = find_lack(*program, *step_, wanted);
    if (!lack) break;
    // Each device has needs of its own that only its program shows: fewer layers, until it fits.
    if (lack->device + 1 == devices_.size() || split.layers[lack->device] == 0) refuse(*program, wanted, *lack);
    const std::uint32_t moved = layers_to_move(layers, split.range(lack->device), lack->needed() - lack->available);
    split.layers[lack->device] -= moved;
    split.layers[lack->device + 1] += moved;
  }
  runtime_->log(QUERN_LOG_WARN, concat(path_, ": ", why, ": ", describe_split(split, devices_)));
  return program;
}

void Model::refuse(const Program& program, const std::vector<WantedWeight>& wanted, const Lack& lack) const {
  const MemoryBudget& budget = *devices_[lack.device];
  const std::string& label = budget.device()->label();
  const graph::Graph& graph = step_->graph;
  std::uint64_t with_context = 0;  // of the session, what grows with the context
  std::vector<graph::ValueId> growing = {step_->rope_table, step_->history};
  for (const auto* caches : {&step_->k_cache, &step_->v_cache}) growing.insert(growing.end(), caches->begin(), caches->end());
  for (const graph::ValueId id : growing) {
    const std::vector<std::uint32_t>& readers = program.readers(id);
    if (std::ranges::find(readers, lack.device) != readers.end())
      with_context += graph::byte_size(graph.value(id).dtype, graph.value(id).shape);
  }
  if (lack.process != 0) {  // and of the program itself
    const graph::Value& rope = graph.value(step_->rope_table);
    with_context += process_bytes(*step_, with_context) - process_bytes(*step_, 0) + graph::byte_size(rope.dtype, rope.shape);
  }
  const std::uint64_t needed = lack.needed(), least = needed - std::min(needed - lack.weights, with_context);
  std::string nearest = concat("; at least ", byte_words(least), " are needed for any context");
  if (least < lack.available) {
    const std::uint64_t per_position = std::max<std::uint64_t>((with_context + context_ - 1) / context_, 1);
    const std::uint64_t fits = (lack.available - least) / per_position / kv_page_size * kv_page_size;
    if (fits > 0) nearest = concat("; a context of ", fits, " would fit");
  }
  const std::optional<std::uint64_t> free = room_on(budget).free;
  const std::uint64_t all =
      lack.weights + lack.session + (shares_host_memory(budget) ? process_bytes(*step_, lack.weights + lack.session) : 0);
  if (budget.limit() != 0 && (!free || all <= *free))
    nearest += concat("; the limit --memory ", label, "=", limit_text(lack.weights + lack.session), " would hold all of it");
  if (lack.device == 0 && !budget.host_memory()) {
    const LayerSplit split = split_layers(layer_bytes(program, *step_, wanted), {lack.available, std::nullopt});
    if (split.layers[0] > 0 && split.layers[0] < step_->k_cache.size()) {
      const std::string backend = label.substr(0, label.find(':'));
      nearest += concat("; ", split.layers[0], " of its ", step_->k_cache.size(), " layers would fit, the others run elsewhere with ",
                        devices_.size() > 1 ? "fallback auto or warn" : concat("--backend ", backend, ",cpu"));
    }
  }
  const std::string limit = lack.limit.empty() ? "" : concat(" (", lack.limit, ")");
  const std::string itself = lack.process == 0 ? "" : concat(", the program itself ", byte_words(lack.process));
  const auto [there, asked] = byte_words_apart(lack.available, needed);
  throw Error(QUERN_DOES_NOT_FIT, concat(path_, ": ", label, " has ", there, " available", limit, " and ", asked, " are needed (weights ",
                                         byte_words(lack.weights), ", a session with a context of ", context_, " ",
                                         byte_words(lack.session), itself, ")", nearest));
}

void Model::bind_weights(Program& program, const std::vector<models::StepGraph::Weight>& weights) const {
  for (const models::StepGraph::Weight& weight : weights) {
    for (const std::uint32_t device : program.readers(weight.value)) {
      const PackedWeight* packed = program.packed(weight.value, device);
      const auto found = tensors_.find({weight.tensor, device, packed != nullptr ? packed->layout : ""});
      if (found == tensors_.end()) {
        throw Error(QUERN_INTERNAL, concat(devices_[device]->device()->label(), ": '", weight.tensor, "' was not loaded as '",
                                           packed != nullptr ? packed->layout : "", "'; the plugin changed its mind"));
      }
      program.bind_constant(weight.value, device, found->second);
    }
  }
}

std::unique_ptr<Program> Model::make_step_program() const {
  auto program = std::make_unique<Program>(step_->graph, devices_, runtime_->settings().fallback, "", assignment_, run_ahead_of(*step_));
  bind_weights(*program, step_->weights);
  return program;
}

std::unique_ptr<Program> Model::make_rope_program() const {
  // Made once a session: wherever it runs, so strictness does not apply. A device that is filled with layers has no room for a second table.
  const auto last = static_cast<std::uint32_t>(assignment_.first_device_of_node.empty() ? 0 : devices_.size() - 1);
  const Assignment where{std::vector<std::uint32_t>(rope_->graph.nodes().size(), last), ""};
  auto program = std::make_unique<Program>(rope_->graph, devices_, Fallback::automatic, "", where);
  if (rope_->factors != graph::no_value) bind_weights(*program, {{rope_->factors, "rope_freqs.weight"}});
  return program;
}

std::string Model::choice() const {
  if (cuts_.empty()) return passed_over_;
  std::string labels;
  for (const DeviceShare& share : shares_)
    if (share.nodes > 0) labels += concat(labels.empty() ? "" : " and ", share.device);
  return concat(passed_over_, passed_over_.empty() ? "" : "; ", cuts_.size(), cuts_.size() == 1 ? " value crosses" : " values cross",
                " between ", labels, " in each step");
}

std::uint64_t Model::weight_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const WeightShare& share : weight_shares_) bytes += share.bytes;
  return bytes;
}

}  // namespace quern::runtime
