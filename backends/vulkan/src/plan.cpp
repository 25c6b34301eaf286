// See plan.hpp.
#include "plan.hpp"

#include "chain.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int64_t most_recorded = 72;  // a session decodes up to 64 sequences at once; and some prefills
constexpr std::int64_t least_recorded = 2;
/// Bytes of all parameters of a plan, if two recordings need no more: a step of training has 1.6 MB of them, and rarely the extents of one before.
constexpr std::uint64_t most_parameters = 16 << 20;
/// What is taken for so many bytes of parameters: other extents than the usual ones may need a few more.
constexpr std::uint64_t parameter_room(std::uint64_t bytes) { return (bytes + 4096 + 255) / 256 * 256; }

/// Bytes of a product's weights, on average, up to which dispatches that wait for each other's words are faster than barriers between them. On an
/// H200: SmolLM2 Q8_0 (0.7 MB) and TinyLlama Q4_K_M (4.1 MB) gain, LLaMA-7B Q4_K_M (18 MB) loses, 497 tokens/s of 506. Products of f16 of any
/// size gain where their row fits shared memory as f32: TinyLlama 985 of 901, LLaMA-7B 247 of 240. Products that no stage takes are launched alone
/// there, and share launches else.
constexpr std::uint64_t most_persistent_bytes = 8 << 20;

bool persistent_pays(const sdk::ResolvedGraph& graph, const CardFacts& card) {
  std::uint64_t bytes = 0, products = 0;
  bool halves = true;
  const Chain chain(card);
  for (const sdk::ResolvedNode& node : graph.nodes) {
    if (node.op != QUERN_OP_MATMUL) continue;
    const sdk::ResolvedValue& weights = graph.values[node.inputs[1]];
    if (is_block(weights.tensor.dtype) && !Chain::takes(weights.tensor.dtype)) return false;
    bytes += weights.bytes;
    ++products;
    halves = halves && weights.tensor.dtype == QUERN_F16 && chain.takes_half_row(static_cast<std::uint64_t>(weights.tensor.last()));
  }
  return products > 0 && (halves || bytes / products <= most_persistent_bytes);
}

/// Whether a run is cut here, so that it can be cancelled: a processor takes long for what a GPU does at once.
bool ends_part(const CardFacts& card, std::uint32_t launches, std::uint64_t invocations) {
  return card.software() ? launches >= 32 || invocations >= 1 << 16 : launches >= 2048;
}

void fold_key(std::uint64_t& key, std::uint64_t number) { key = (key ^ number) * 0x100000001b3ull; }

/// What a kernel of one name computes otherwise by: the values' dtypes and layouts, and what the node allows.
void fold_node(std::uint64_t& key, const sdk::ResolvedGraph& graph, const sdk::ResolvedNode& node) {
  fold_key(key, node.op);
  fold_key(key, 2u * node.conversions + node.invariant);
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const std::uint32_t v : *list)
      fold_key(key, v == QUERN_NONE ? 0 : 2u * graph.values[v].tensor.dtype + graph.values[v].tensor.packed_layout);
}

}  // namespace

Plan::Plan(Device& device, const quern_graph* host_graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused)
    : graph(host_graph, device.offers()) {
  graph.require_runnable(refused);
  const std::string_view forced = sdk::view(options.force_kernel);
  std::uint64_t key = 0xcbf29ce484222325ull;
  bool fits = forced.empty() || forced == "vulkan";
  schedule = options.fusion != 0 ? fused_schedule(graph, device.facts(), device.tier()) : general_schedule(graph);
  persistent = options.fusion != 0 && device.persistent() && (device.options().persistent || persistent_pays(graph, device.facts()));
  schedule.place(graph);
  told.schedule();
  for (const Step& step : schedule.steps) {
    fits = fits || (!step.nodes.empty() && forced == step.kernel);
    for (const char c : step.kernel) fold_key(key, static_cast<unsigned char>(c));
    told.kernel(step.kernel, step.reason == nullptr ? "" : step.reason, step.nodes, step.node);
  }
  for (const sdk::Alone& node : schedule.alone) told.alone(node);
  told.serves(0);
  for (const quern_kernel_info& info : told.kernels(0))
    if (info.node_count > 0) infos.push_back(info);  // else a part of the step behind it, which computes the node
  // Which steps of one row join in a dispatch, and so the order of their sums, depends on what is wanted besides the results.
  if (persistent) {
    for (const sdk::ResolvedNode& node : graph.nodes)
      for (const std::uint32_t v : node.outputs) fold_key(key, v == QUERN_NONE ? 2u : graph.internal(graph.values[v].root) ? 1u : 3u);
  }
  counts_on_device = std::ranges::any_of(graph.source.symbols, [](const auto& symbol) { return symbol.extent != QUERN_NONE; });
  // A plan promises what its least node does.
  if (!graph.nodes.empty() && std::ranges::all_of(graph.nodes, &sdk::ResolvedNode::invariant)) determinism = QUERN_DETERMINISM_INVARIANT;
  if (!fits) throw Failure(QUERN_UNSUPPORTED, concat("force_kernel is '", std::string(forced), "'; this graph has no such kernel here"));
  launches = static_cast<std::uint32_t>(infos.size());
  for (const sdk::ResolvedNode& node : graph.nodes) fold_node(key, graph, node);
  numerics_key = key;
}

std::shared_ptr<Common> Plan::common() const {
  const std::lock_guard lock(common_lock);
  std::shared_ptr<Common> common = common_.lock();
  if (common == nullptr) common_ = common = std::make_shared<Common>();
  return common;
}

Instance::Instance(const Plan& plan, Device& device)
    : plan_(plan),
      device_(device),
      slot_(device.next_slot()),
      bounds_(plan.graph),
      common_(plan.common()),
      counters_(sdk::made<quern_counters>()) {}

Instance::~Instance() {
  try {
    log_times();
  } catch (...) {  // a line less in the log
  }
  drop_recorded();
}

/// When the last instance of a plan goes: what steps that were run again and again cost the host, which `quern run -v` shows.
void Instance::log_times() const {
  if (common_.use_count() > 1 || !device_.options().log) return;
  for (const auto& [extents, time] : common_->times) {
    if (time.runs() < 2) continue;
    std::string text;
    for (const std::int64_t extent : extents) text += concat(text.empty() ? "" : ", ", extent);
    device_.options().log(concat(time.runs(), " runs of extents ", text, ": ", time.text()));
  }
}

void Instance::drop_recorded() noexcept {
  for (const Recorded& slot : recorded_)
    for (const VkCommandBuffer commands : slot.commands) device_.free_commands(commands);
  recorded_.clear();
}

/// Where values lie, for one set of extents.
class Instance::Context : public StepContext {
 public:
  Context(const Instance& instance, const std::vector<std::int64_t>& extents) : instance_(instance), extents_(extents) {}
  Tensor tensor(std::uint32_t value) const override {
    const sdk::ResolvedValue& v = instance_.plan_.graph.values[value];
    Tensor t = v.tensor;
    instance_.plan_.graph.shape(value, extents_, t);
    const sdk::BoundPlaces& places = instance_.places_;
    if (places.of.empty()) {  // nothing is bound: places that no two values share, so that launches are those of a run
      t.data = ((std::uint64_t{v.root} + 1) << 40) + v.offset;
      if (instance_.plan_.graph.internal(v.root)) t.data = instance_.plan_.schedule.layout.value_offset[v.root] + v.offset;
      return t;
    }
    t.data = instance_.plan_.graph.internal(v.root) ? places.scratch + instance_.plan_.schedule.layout.value_offset[v.root] + v.offset
                                                    : places.of[value];
    return t;
  }
  std::uint64_t extra(std::uint32_t slot) const override {
    return instance_.places_.scratch + instance_.plan_.schedule.layout.extra_offset[slot];
  }

 private:
  const Instance& instance_;
  const std::vector<std::int64_t>& extents_;
};

void Instance::emit(const Step& step, const std::vector<std::int64_t>& extents, Launcher& launcher) const {
  const Schedule& schedule = plan_.schedule;
  const Context context(*this, extents);
  std::vector<Touched> touches;
  if (step.emit) {
    for (const std::uint32_t v : step.reads) touches.push_back(touched(context.tensor(v), false));
    for (const std::uint32_t v : step.writes) touches.push_back(touched(context.tensor(v), true));
    for (const std::uint32_t e : step.extra_reads) touches.push_back({context.extra(e), context.extra(e) + schedule.extras[e], false});
    for (const std::uint32_t e : step.extra_writes) touches.push_back({context.extra(e), context.extra(e) + schedule.extras[e], true});
    launcher.begin_step(std::move(touches));
    launcher.set_predicate(0);
    return step.emit(context, launcher);
  }
  const sdk::ResolvedNode& node = plan_.graph.nodes[step.node];
  const Op& op = static_cast<const Op&>(*node.offer);
  std::vector<Tensor> storage;
  Call call = plan_.graph.call(node, storage, [&](std::uint32_t v) { return context.tensor(v); });
  bool any = node.outputs.empty();
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (!storage[i].present()) continue;
    const bool output = i >= node.inputs.size();
    any = any || (output && storage[i].elements() > 0);
    touches.push_back(touched(storage[i], output || i == sdk::written_input(node.op)));
  }
  if (!any) return;
  call.scratch = places_.scratch + schedule.layout.scratch_offset;
  if (schedule.node_scratch[step.node] > 0) touches.push_back({call.scratch, call.scratch + schedule.node_scratch[step.node], true});
  if (node.predicate != QUERN_NONE) touches.push_back(touched(context.tensor(node.predicate), false));
  launcher.begin_step(std::move(touches));
  launcher.set_predicate(node.predicate != QUERN_NONE && !node.row_predicate ? context.tensor(node.predicate).data : 0);
  op.emit(call, launcher);
}

Launcher Instance::dry(const std::vector<std::int64_t>& extents) const {
  Launcher::Target nowhere;
  nowhere.slot = slot_;
  nowhere.persistent = plan_.persistent;
  Launcher launcher(device_, nowhere);
  for (const Step& step : plan_.schedule.steps) emit(step, extents, launcher);
  launcher.flush();
  return launcher;
}

Instance::Needs Instance::needs() const {
  Needs all;
  for (const std::vector<std::int64_t>& extents : usual_extents()) {
    const Launcher launcher = dry(extents);
    all.pipelines.insert(all.pipelines.end(), launcher.wanted().begin(), launcher.wanted().end());
    all.parameters = std::max(all.parameters, launcher.parameter_bytes());
    all.exchange = std::max(all.exchange, launcher.exchange_bytes());
  }
  return all;
}

std::vector<std::vector<std::int64_t>> Instance::usual_extents() const {
  std::vector<std::vector<std::int64_t>> usual = {bounds_.bounds()};
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 512}) {
    std::vector<std::int64_t> extents = bounds_.bounds();
    for (std::size_t s = 0; s < extents.size(); ++s) {
      const std::int64_t least = std::min(plan_.graph.source.symbols[s].min, extents[s]);
      extents[s] = std::clamp(rows, least, extents[s]);
    }
    if (std::ranges::find(usual, extents) == usual.end()) usual.push_back(std::move(extents));
  }
  return usual;
}

std::int64_t Instance::slots(std::uint64_t parameters) const {
  const std::int64_t most =
      parameters == 0 ? most_recorded
                      : std::clamp(static_cast<std::int64_t>(most_parameters / parameter_room(parameters)), least_recorded, most_recorded);
  std::int64_t slots = 1;  // as many as there are extents
  for (std::size_t s = 0; s < bounds_.bounds().size() && slots < most; ++s) {
    const sdk::Graph& source = plan_.graph.source;
    const std::int64_t least = source.symbols[s].extent == QUERN_NONE ? source.symbols[s].min : 0;
    slots *= std::clamp<std::int64_t>(bounds_.bounds()[s] - least + 1, 1, most);
  }
  return std::min(slots, most);
}

std::uint64_t Instance::private_bytes() {
  const Needs all = needs();
  {
    const std::lock_guard lock(plan_.common_lock);
    if (all.exchange > common_->claimed) claimed_ += all.exchange - std::exchange(common_->claimed, all.exchange);
  }
  return claimed_ + (all.parameters == 0 || !device_.facts().mapped
                         ? 0
                         : static_cast<std::uint64_t>(slots(all.parameters)) * parameter_room(all.parameters));
}

/// Kernels read parameters again and again: near the device, if its limit leaves room there.
Memory Instance::take_parameters(std::uint64_t bytes) const {
  constexpr const char* what = "the parameters of a run";
  if (!device_.facts().mapped) return device_.take_shared(bytes, what);
  try {
    return device_.take(bytes, what);
  } catch (const Failure& failure) {
    if (failure.code != QUERN_OUT_OF_MEMORY) throw;
    return device_.take_shared(bytes, what);
  }
}

void Instance::prepare(sdk::BoundPlaces places) {
  drop_recorded();
  prepared_ = false;
  places_ = std::move(places);
  const std::vector<std::vector<std::int64_t>> usual = usual_extents();
  const Needs all = needs();
  device_.pipelines().make(all.pipelines, device_.threads());
  device_.pipelines().save_many();
  for (std::int64_t s = 0, count = slots(all.parameters); s < count; ++s) {
    Recorded& slot = recorded_.emplace_back();
    if (all.parameters > 0) slot.parameters = take_parameters(parameter_room(all.parameters));
  }
  take_exchange(all.exchange);
  for (std::size_t s = 0; s < std::min<std::size_t>({usual.size(), recorded_.size(), 2}); ++s) record(recorded_[s], usual[s]);
  counters_ = sdk::made<quern_counters>();
  prepared_ = true;
}

/// One that other instances have recorded stays where it is; one that is too small for this one is not shared.
void Instance::take_exchange(std::uint64_t bytes) {
  if (bytes <= common_->exchange.bytes()) return;
  if (common_->exchange.bytes() > 0) common_ = std::make_shared<Common>();
  const std::uint64_t taken = std::max(bytes, common_->claimed);
  Memory memory = device_.take(taken, "what dispatches exchange");
  device_.fill(memory, 0, 0, taken);
  common_->exchange = std::move(memory);
}

void Instance::record(Recorded& slot, const std::vector<std::int64_t>& extents) {
  const Calls& calls = device_.calls();
  slot.time = &common_->times[extents];
  slot.extents.clear();
  Launcher::Target target;
  target.slot = slot_;
  target.parameters = slot.parameters.mapped();
  target.parameters_address = slot.parameters.address();
  target.parameters_bytes = slot.parameters.bytes();
  target.parameters_buffer = slot.parameters.buffer();
  target.parameters_offset = slot.parameters.offset();
  target.persistent = plan_.persistent;
  target.exchange = common_->exchange.address();
  target.scratch_begin = places_.scratch;
  target.scratch_end = places_.scratch + plan_.schedule.layout.bytes;
  std::size_t parts = 0;
  const auto begin = [&] {
    if (slot.commands.size() == parts) slot.commands.push_back(device_.new_commands());
    target.commands = slot.commands[parts++];
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    check(calls.BeginCommandBuffer(target.commands, &info), "recording a run");
  };
  const auto end = [&] {
    barrier(calls, target.commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
            VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
    check(calls.EndCommandBuffer(target.commands), "recording a run");
  };
  begin();
  Launcher launcher(device_, target);
  std::uint32_t launches = 0;
  std::uint64_t invocations = 0;
  for (const Step& step : plan_.schedule.steps) {
    if (ends_part(device_.facts(), launcher.launches() - launches, launcher.invocations() - invocations)) {
      launcher.flush();
      end();
      begin();
      launcher.use(target.commands);
      launches = launcher.launches();
      invocations = launcher.invocations();
    }
    try {
      emit(step, extents, launcher);
    } catch (Failure& failure) {
      failure.node = step.node;
      throw;
    }
  }
  launcher.flush();
  end();
  for (; slot.commands.size() > parts; slot.commands.pop_back()) device_.free_commands(slot.commands.back());
  slot.extents = extents;
  slot.used = ++clock_;
}

Instance::Recorded& Instance::recorded(const std::vector<std::int64_t>& extents) {
  Recorded* oldest = &recorded_.front();
  for (Recorded& slot : recorded_) {
    if (!slot.commands.empty() && slot.extents == extents && slot.used != 0) {
      slot.used = ++clock_;
      return slot;
    }
    if (slot.used < oldest->used) oldest = &slot;
  }
  if (oldest->used != 0) ++counters_.rerecords;
  record(*oldest, extents);
  return *oldest;
}

bool Instance::start(const quern_run& run) {
  under_way_ = {};
  HostTime::Run& time = under_way_.time;
  if (cancelled_) throw Failure(QUERN_CANCELLED, "the run was cancelled", 18);
  ++counters_.runs;
  const sdk::List<quern_patch> patches(run.patches, "patches");
  if (patches.size() != 0 || plan_.counts_on_device) device_.settle();  // the processor writes and reads where runs before may
  for (const quern_patch& patch : patches)
    if (patch.bytes > 0) device_.write(places_.of[patch.value] + patch.offset, patch.data, patch.bytes);
  counters_.host_copies += bounds_.patch_bytes();
  bounds_.read_extents([this](std::uint32_t value) {
    std::int32_t exact = 0;
    device_.read(&exact, places_.of[value], sizeof exact);
    return exact;
  });
  Recorded& steps = recorded(bounds_.extents());
  under_way_.steps = &steps;
  time.was(HostTime::before);
  std::uint64_t before = 0;
  try {
    if (steps.commands.size() == 1) {
      under_way_.point = device_.collect(steps.commands.front());
      return true;
    }
    for (const VkCommandBuffer commands : steps.commands) {
      const std::uint64_t point = device_.enqueue(commands);
      time.was(HostTime::submit);
      if (before != 0) device_.wait(before);  // one part runs while the next waits
      time.was(HostTime::wait);
      before = under_way_.point;
      under_way_.point = point;
      if (cancelled_) break;
    }
  } catch (const Failure& failure) {
    if ((failure.flags & QUERN_ERROR_STICKY) == 0) device_.settle();
    throw;
  }
  return true;
}

void Instance::finish(const quern_run&, quern_run_status& outcome) {
  HostTime::Run& time = under_way_.time;
  time.goes_on();  // of a list: since it was started the host did what other runs wanted
  device_.flush();
  time.was(HostTime::submit);
  device_.wait(under_way_.point);
  time.was(HostTime::wait);
  if (device_.take_stalled(slot_))
    throw Failure(QUERN_TIMEOUT,
                  concat(device_.facts().name, ": the ", device_.facts().persistent_groups,
                         " workgroups of dispatches that wait for each other did not run at once; QUERN_FORCE_KERNEL=vulkan:",
                         device_.facts().tier() == Tier::matrices ? "matrices" : "dot", " runs a dispatch a step instead"),
                  18);
  outcome.faults = device_.take_faults(slot_);
  outcome.code = cancelled_ ? QUERN_CANCELLED : QUERN_OK;
  if (cancelled_) throw Failure(QUERN_CANCELLED, "the run was cancelled", 18);
  time.was(HostTime::behind);
  under_way_.steps->time->add(time);
}

}  // namespace quern::vulkan
