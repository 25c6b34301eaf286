// See plan.hpp.
#include "plan.hpp"

#include "decode.hpp"
#include "wide.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <tuple>
#include <utility>

namespace quern::cuda {

namespace {

/// Any other failure of a graph is the graph's alone: the step's kernels can still be launched one by one.
bool ends_the_step(const Failure& failure) { return failure.code == QUERN_DEVICE_LOST || failure.code == QUERN_CANCELLED; }

void fold_key(std::uint64_t& key, std::uint64_t number) { key = (key ^ number) * 0x100000001b3ull; }

/// What a kernel of one name computes otherwise by: the values' dtypes and layouts, and what the node allows.
void fold_node(std::uint64_t& key, const Graph& graph, const Node& node) {
  fold_key(key, node.op);
  fold_key(key, 1u + node.int8_allowed() + 2u * node.bf16_allowed() + 4u * node.f16_allowed() + 8u * node.invariant);
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const std::uint32_t v : *list)
      fold_key(key, v == QUERN_NONE ? 0 : 2u * graph.values[v].tensor.dtype + graph.values[v].tensor.packed_layout);
}

}  // namespace

/// Why nothing is fused in runs of one row, of few, and of more, where no schedule that fuses serves them.
struct Plan::Unfused {
  std::vector<sdk::Alone> one, few, many;
  std::vector<sdk::Alone> other;  // where each of them is served, but not with these extents beside it
};

/// Bytes of the weights whose products run by themselves.
static std::uint64_t weights_alone(const Graph& graph, const Schedule& schedule) {
  std::uint64_t bytes = 0;
  for (const sdk::Alone& alone : schedule.alone)
    if (const Node& node = graph.nodes[alone.node]; node.op == QUERN_OP_MATMUL) bytes += graph.values[node.inputs[1]].bytes;
  return bytes;
}

void Plan::compile(const quern_graph* given, bool fuse, const CardFacts& card, std::vector<std::uint32_t>& refused) {
  graph.require_runnable(refused);
  schedules.push_back(general_schedule(graph));
  written.assign(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const std::uint32_t v : node.outputs)
      if (v != QUERN_NONE) written[graph.values[v].root] = !graph.internal(graph.values[v].root);
    if (const std::size_t i = sdk::written_input(node.op); i != sdk::no_written_input)
      written[graph.values[node.inputs[i]].root] = !graph.internal(graph.values[node.inputs[i]].root);
  }
  if (std::ranges::any_of(graph.nodes, [&](const Node& node) { return asks_host(node); })) capture = false;
  // A plan promises what its least node does: others are fused by the number of rows.
  if (!graph.nodes.empty() && std::ranges::all_of(graph.nodes, &Node::invariant)) determinism = QUERN_DETERMINISM_INVARIANT;
  Unfused unfused;
  const bool matrices = card.has_matrix_units();
  const auto take = [&](Schedule schedule, std::vector<sdk::Alone>& alone) {
    if (schedule.steps.empty()) alone = std::move(schedule.alone);
    else schedules.push_back(std::move(schedule));
  };
  if (!fuse) {
    unfused.one = unfused.few = unfused.many = no_schedule(graph, "", "an option switches off kernels of several nodes").alone;
  } else if (Schedule invariant = invariant_schedule(graph, card); !invariant.steps.empty()) {
    schedules.push_back(std::move(invariant));  // one for all runs: others would sum in other orders
  } else {
    unfused.other = no_schedule(graph, "rows", "kernels of several nodes are for other extents together").alone;
    take(matrices ? wide_schedule(graph, given, card)
                  : no_schedule(graph, "product", "many rows need a card of compute capability 8.0 or newer"),
         unfused.many);
    Schedule mixed = matrices ? mixed_schedule(graph, given, card) : Schedule{};
    Schedule of_one = decode_schedule(graph, given, 1, card);
    const bool few = !mixed.steps.empty() && mixed.least_rows <= 2, one = few && mixed.least_rows <= 1;
    const bool mixed_is_better = one && weights_alone(graph, mixed) < weights_alone(graph, of_one);
    if (!mixed.steps.empty()) schedules.push_back(std::move(mixed));
    if (!few) take(decode_schedule(graph, given, 8, card), unfused.few);
    if (!mixed_is_better) take(std::move(of_one), unfused.one);
  }
  for (Schedule& schedule : schedules) {
    schedule.place(graph);
    for (const std::uint32_t v : schedule.orders) {
      const Orders::Index index{v, static_cast<std::uint64_t>(graph.values[v].tensor.elements())};
      if (std::ranges::find(orders, index) == orders.end()) orders.push_back(index);
    }
  }
  std::string reason;
  if (schedules.size() == 1 && fuse)
    for (const Node& node : graph.nodes)
      if (node.invariant && reason.empty())
        reason = concat("not fused: '", node.name, "' asks for results that do not depend on the batch");
  tell(unfused, reason);
  std::uint64_t key = 0xcbf29ce484222325ull;
  for (const Schedule& schedule : schedules)
    for (const Step& step : schedule.steps)
      for (const char c : step.kernel) fold_key(key, static_cast<unsigned char>(c));
  for (const Node& node : graph.nodes) fold_node(key, graph, node);
  numerics_key = key;
}

/// Writes down what plan_info says. Which schedule serves which rows is asked of schedule_for itself, at each number where its answer may change.
void Plan::tell(const Unfused& unfused, std::string_view reason) {
  const auto idle_steps = [](const Schedule& schedule, std::int64_t rows) {
    std::vector<bool> idle;
    for (const Step& step : schedule.steps) idle.push_back(step.idle && step.idle(rows));
    return idle;
  };
  const auto add = [&](const Schedule& schedule, const std::vector<sdk::Alone>& alone, const std::vector<bool>& idle) {
    told.schedule();
    std::vector<std::uint32_t> left;  // nodes of idle steps, whose work the next step does
    for (std::size_t s = 0; s < schedule.steps.size(); ++s) {
      const Step& step = schedule.steps[s];
      left.insert(left.end(), step.nodes.begin(), step.nodes.end());
      if (!idle[s]) told.kernel(step.kernel, reason, std::exchange(left, {}), step.first_node);
    }
    for (const sdk::Alone& node : alone) told.alone(node);
  };
  std::map<std::tuple<const Schedule*, const std::vector<sdk::Alone>*, std::vector<bool>>, std::size_t> index;
  const auto index_of = [&](const Schedule& schedule, const std::vector<sdk::Alone>& alone, std::int64_t rows) {
    std::vector<bool> idle = idle_steps(schedule, rows);
    const auto [at, made] = index.try_emplace({&schedule, &alone, std::move(idle)}, index.size());
    if (made) add(schedule, alone, std::get<2>(at->first));
    return at->second;
  };
  // The kernels of `infos`: those of the schedule that was made last, which serves the fewest rows.
  const Schedule& general = schedules.front();
  const auto alone_of = [&](const Schedule& schedule, std::int64_t rows) -> const std::vector<sdk::Alone>& {
    if (&schedule != &general) return schedule.alone;
    const std::vector<sdk::Alone>& alone = rows <= 1 ? unfused.one : rows <= 8 ? unfused.few : unfused.many;
    return alone.empty() ? unfused.other : alone;
  };
  const auto& symbols = graph.source.symbols;
  if (symbols.empty()) {
    told.serves(index_of(general, unfused.one, 1));
    infos = told.kernels(0);
    return;
  }
  // The rows: the extent that most values have.
  std::vector<std::size_t> uses(symbols.size());
  for (const auto& value : graph.source.values)
    if (value.rank > 0 && value.symbols[0] != 0) ++uses[value.symbols[0] - 1];
  std::uint32_t rows_symbol = static_cast<std::uint32_t>(std::ranges::max_element(uses) - uses.begin());
  for (const Schedule& schedule : schedules)
    if (schedule.rows_symbol != QUERN_NONE) rows_symbol = schedule.rows_symbol;
  const std::int64_t most = symbols[rows_symbol].max, least = std::min(std::max<std::int64_t>(symbols[rows_symbol].min, 1), most);
  std::set<std::int64_t> changes{least, 2, 9};  // 2 and 9: see alone_of
  for (const Schedule& schedule : schedules) {
    for (const std::uint32_t bound : {schedule.least_rows, schedule.most_rows + 1, schedule.most_prompt_rows + 1}) changes.insert(bound);
    if (std::ranges::any_of(schedule.steps, [](const Step& step) { return step.idle != nullptr; }))  // each number may be another case
      for (std::int64_t rows = schedule.least_rows; rows <= schedule.most_rows; ++rows) changes.insert(rows);
  }
  for (const auto& symbol : symbols)
    for (const std::int64_t bound : {symbol.min, symbol.max, std::min(symbol.max, INT64_MAX / 8) * 4}) changes.insert({bound, bound + 1});
  const auto serving = [&](std::int64_t rows, bool sequences) {
    std::vector<std::int64_t> extents;
    for (const auto& symbol : symbols) {
      const std::int64_t fewest = std::min(std::max<std::int64_t>(symbol.min, 1), symbol.max);
      extents.push_back(sequences ? std::clamp(rows, fewest, symbol.max) : fewest);
    }
    extents[rows_symbol] = rows;
    const Schedule& schedule = schedule_for(extents);
    return index_of(schedule, alone_of(schedule, rows), rows);
  };
  struct Range {
    std::int64_t from;
    std::size_t sequences, one;
  };
  std::vector<Range> ranges;
  for (const std::int64_t rows : changes) {
    if (rows < least || rows > most) continue;
    const Range range{rows, serving(rows, true), serving(rows, false)};
    if (ranges.empty() || ranges.back().sequences != range.sequences || ranges.back().one != range.one) ranges.push_back(range);
  }
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const std::int64_t to = r + 1 < ranges.size() ? ranges[r + 1].from - 1 : most;
    if (ranges[r].sequences == ranges[r].one) {
      told.serves(ranges[r].one, rows_symbol, QUERN_ROWS_ANY, ranges[r].from, to);
    } else {
      told.serves(ranges[r].sequences, rows_symbol, QUERN_ROWS_OF_SEQUENCES, ranges[r].from, to);
      told.serves(ranges[r].one, rows_symbol, QUERN_ROWS_OF_ONE_SEQUENCE, ranges[r].from, to);
    }
  }
  const Schedule& fewest = schedules.back();
  infos = told.kernels(index_of(fewest, alone_of(fewest, 1), std::max<std::int64_t>(least, 1)));
}

void Plan::add_library(Gpu& gpu) {
  if (std::ranges::all_of(schedules, [](const Schedule& s) { return s.dense.empty(); })) return;
  const Blas* blas = gpu.blas();
  const std::string version = blas == nullptr ? "own" : blas->version();
  for (const char c : version) fold_key(numerics_key, static_cast<unsigned char>(c));
}

std::uint64_t Plan::scratch_bytes() const {
  std::uint64_t bytes = 0;
  for (const Schedule& schedule : schedules) bytes = std::max(bytes, schedule.bytes);
  return bytes;
}

bool Plan::has_kernel(std::string_view name) const noexcept {
  return std::ranges::any_of(schedules, [&](const Schedule& schedule) {
    return std::ranges::any_of(schedule.steps, [&](const Step& step) { return step.kernel == name; });
  });
}

const Schedule& Plan::schedule_for(const std::vector<std::int64_t>& extents, bool ordered) const {
  for (std::size_t s = schedules.size(); s-- > 1;)
    if (schedules[s].serves(extents) && (ordered || schedules[s].orders.empty())) return schedules[s];
  return schedules.front();
}

class Instance::Context : public StepContext {
 public:
  Context(const Instance& instance, const Schedule& schedule) : instance_(instance), schedule_(schedule) {}
  const Tensor& tensor(std::uint32_t value) const override { return instance_.tensors_[value]; }
  Order order(std::uint32_t value) const override { return instance_.orders_.of(value); }
  Address extra(std::uint32_t slot) const override { return instance_.scratch_ + schedule_.extra_offset[slot]; }
  Address scratch() const override { return instance_.scratch_ + schedule_.scratch_offset; }
  Address counters() const override { return instance_.counters_memory_; }

 private:
  const Instance& instance_;
  const Schedule& schedule_;
};

namespace {

Slot* take_slot(Gpu& gpu) {
  const Current current(gpu.driver(), gpu.context());
  return gpu.slots().take();
}

}  // namespace

Instance::Instance(const Plan& plan, Gpu& gpu)
    : plan_(plan),
      gpu_(gpu),
      slot_(take_slot(gpu)),
      limits_(plan.graph),
      bounds_(limits_.bounds()),
      extents_(limits_.extents()),
      places_(plan.graph.values.size()),
      counters_(sdk::made<quern_counters>()) {
  for (const Value& value : plan.graph.values) tensors_.push_back(value.tensor);
}

Instance::~Instance() {
  if (plan_.without_graphs == this) plan_.without_graphs = nullptr;
  if (gpu_.driver().cuCtxPushCurrent_v2(gpu_.context()) != constant::success) return;
  drop_captured();
  for (Mirrors::Mirror* mirror : mirrors_) gpu_.mirrors().remove(mirror);
  gpu_.slots().give(slot_);
  if (counters_memory_ != 0) gpu_.release(counters_memory_, private_bytes());
  ::quern::cuda::Context ignored = nullptr;
  gpu_.driver().cuCtxPopCurrent_v2(&ignored);
}

void Instance::drop_captured() noexcept {
  for (const Captured& captured : captured_) gpu_.driver().cuGraphExecDestroy(captured.exec);
  captured_.clear();
}

void Instance::refresh(const std::vector<std::int64_t>& extents, const Schedule& schedule) {
  const Graph& graph = plan_.graph;
  for (std::uint32_t v = 0; v < tensors_.size(); ++v) {
    graph.shape(v, extents, tensors_[v]);
    const std::uint32_t root = graph.values[v].root;
    tensors_[v].data =
        (graph.internal(root) ? scratch_ + schedule.value_offset[root] : places_[v]) + (graph.internal(root) ? graph.values[v].offset : 0);
  }
  laid_out_ = &schedule;
}

void Instance::check_cancel() const {
  if (cancelled_.load(std::memory_order_relaxed)) throw Failure(QUERN_CANCELLED, "the run was cancelled", 18);
}

std::uint32_t Instance::emit(const Schedule& schedule, Emit how, Lane& lane, std::uint32_t& step) {
  Launcher launcher(lane, how == Emit::dry, *slot_);
  const Context context(*this, schedule);
  if (how != Emit::captured_without_writes) launcher.deliver(how == Emit::captured);
  for (step = 0; step < schedule.steps.size(); ++step) {
    check_cancel();
    schedule.steps[step].emit(context, launcher);
  }
  PublishParams publish{};
  for (const Mirrors::Mirror* mirror : mirrors_) {
    if (publish.count == 4) break;
    publish.from[publish.count] = mirror->from;
    publish.to[publish.count] = mirror->device;
    publish.bytes[publish.count++] = mirror->bytes;
  }
  if (publish.count > 0) launcher.launch(kernels::publish, {1, 1, 1}, 256, publish);
  return launcher.launches();
}

void Instance::prepare(sdk::BoundPlaces places, Lane& lane) {
  const Current current(gpu_.driver(), gpu_.context());
  const Graph& graph = plan_.graph;
  drop_captured();
  if (plan_.without_graphs == this) plan_.without_graphs = nullptr;
  cancelled_ = false;  // of no run: steps are captured here
  for (Mirrors::Mirror* mirror : mirrors_) gpu_.mirrors().remove(mirror);
  mirrors_.clear();
  lane.deliver();  // weights may be among the small writes
  places_ = std::move(places.of);
  scratch_ = places.scratch;
  for (std::uint32_t v = 0; v < graph.values.size(); ++v)
    if (graph.source.values[v].kind == QUERN_VALUE_OUTPUT && graph.values[v].root == v && graph.values[v].bytes <= 4096 &&
        mirrors_.size() < 4)
      if (Mirrors::Mirror* mirror = gpu_.mirrors().add(places_[v], static_cast<std::uint32_t>(graph.values[v].bytes)); mirror != nullptr)
        mirrors_.push_back(mirror);
  if (counters_memory_ == 0) {
    counters_memory_ = gpu_.allocate(private_bytes(), "counters");
    gpu_.driver().check(gpu_.driver().cuMemsetD32Async(counters_memory_, 0, counter_bytes / 4, lane.stream()), "clearing counters");
    lane.synchronize("clearing counters");  // a run may come on another lane
  }
  counters_ = sdk::made<quern_counters>();
  read_orders(lane);
  prepared_ = true;
  capture(lane);
  gpu_.staging().give_back();  // the weights are there
}

void Instance::read_orders(Lane& lane) {
  ordered_ = orders_.read(plan_.orders, places_, counters_memory_ + counter_bytes, lane);
  if (!ordered_)
    gpu_.warn(
        "an order of columns in front of products names a column twice or none: steps with it run without the kernels of several nodes, which is slower");
}

/// Finds every kernel that runs may need, and captures steps of 1 to 8 rows and of as many as there can be; others are captured when they come again.
void Instance::capture(Lane& lane) {
  std::vector<std::int64_t> extents = bounds_;
  std::uint32_t step = 0;
  for (const Schedule& schedule : plan_.schedules) {
    if (schedule.dense.empty() || (!ordered_ && !schedule.orders.empty())) continue;
    refresh(extents, schedule);
    if (gpu_.blas() != nullptr) lane.blas_workspace();
    Launcher launcher(lane, false, *slot_);
    for (const std::vector<DenseWeight>& group : schedule.dense) {
      std::vector<Shadows::Source> weights;
      for (const DenseWeight& dense : group) weights.push_back({tensors_[dense.weight], orders_.of(dense.order)});
      if (!gpu_.shadows().make(weights, launcher)) break;
    }
    lane.synchronize("making 16-bit copies of weights");
  }
  const std::unique_lock kept = gpu_.shadows().keep();
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 512}) {
    for (std::size_t s = 0; s < extents.size(); ++s) extents[s] = std::clamp(rows, plan_.graph.source.symbols[s].min, bounds_[s]);
    for (const Schedule& schedule : plan_.schedules) {
      if (!schedule.serves(extents) || (!ordered_ && !schedule.orders.empty())) continue;
      refresh(extents, schedule);
      emit(schedule, Emit::dry, lane, step);
    }
    if (extents.empty()) break;
  }
  if (bounds_.empty()) return;
  const std::int64_t most = *std::ranges::min_element(bounds_);  // a row for each sequence
  for (std::int64_t rows = 1; rows <= most; ++rows) {
    if (rows > 8 && rows != most) continue;
    std::ranges::fill(extents, rows);
    if (!takes_graph(extents, schedule_for(extents))) continue;
    capture_step(extents, lane);
    if (rows == 1) capture_step(extents, lane, false);  // a step that comes behind another in one submit: 5 us less
  }
}

/// Whether a step of these extents runs as a graph: a model's, all ranged extents equal, 1 to 32, without copies of weights that may be given up.
bool Instance::takes_graph(const std::vector<std::int64_t>& extents, const Schedule& schedule) const {
  if (plan_.without_graphs != nullptr || !plan_.capture || plan_.graph.nodes.size() < 16 || extents.empty() || extents.front() < 1 ||
      extents.front() > 32)
    return false;
  if (extents.front() > 8 && !schedule.dense.empty()) return false;
  for (std::size_t s = 0; s < extents.size(); ++s)
    if (extents[s] != extents.front() || extents[s] < plan_.graph.source.symbols[s].min || extents[s] > bounds_[s] ||
        plan_.graph.source.symbols[s].extent != QUERN_NONE)
      return false;
  return true;
}

/// Where no graph can be made the step's kernels are launched one by one.
void Instance::capture_step(const std::vector<std::int64_t>& extents, Lane& lane, bool delivers) {
  if (plan_.without_graphs != nullptr) return;
  captured_.reserve(captured_.size() + 1);  // so that no graph is lost
  try {
    captured_.push_back({extents, delivers, lane.id(), record_step(extents, lane, delivers)});
  } catch (const Failure& failure) {
    if (ends_the_step(failure)) throw;
    go_without_graph(failure);
  }
}

/// One refusal is enough: others would most likely follow, each for some milliseconds.
void Instance::go_without_graph(const Failure& failure) {
  if (std::exchange(plan_.without_graphs, this) == nullptr)
    gpu_.warn(concat(gpu_.facts().name, ": no graph of a step, its kernels are launched one by one, which is slower: ", failure.text));
}

/// Starts a captured step. Where the driver does not, nothing of it has run, and the graph is gone.
bool Instance::launch_captured(std::vector<Captured>::iterator captured, Lane& lane) {
  const Driver& driver = gpu_.driver();
  lane.touch();
  if (captured->delivers) {
    lane.mailbox().post(*slot_);
    lane.mailbox().copy_rest(lane.stream(), *slot_);
  }
  try {
    driver.check(driver.cuGraphLaunch(captured->exec, lane.stream()), "launching a step");
    return true;
  } catch (const Failure& failure) {
    if (ends_the_step(failure)) throw;
    go_without_graph(failure);
    driver.cuGraphExecDestroy(captured->exec);
    if (captured->delivers) {
      Launcher(lane, false, *slot_).deliver_posted();
      lane.synchronize("delivering writes");  // the page is posted anew when the kernels are launched
    }
    captured_.erase(captured);
    return false;
  }
}

/// Of the run's extents and lane; one that delivers nothing if nothing waits.
std::vector<Instance::Captured>::iterator Instance::captured(Lane& lane) {
  const auto find = [&](bool delivers) {
    return std::ranges::find_if(captured_,
                                [&](const Captured& c) { return c.extents == extents_ && c.delivers == delivers && c.lane == lane.id(); });
  };
  if (lane.mailbox().empty())
    if (const auto bare = find(false); bare != captured_.end()) return bare;
  return find(true);
}

GraphExec Instance::record_step(const std::vector<std::int64_t>& extents, Lane& lane, bool delivers) {
  const Driver& driver = gpu_.driver();
  const Schedule& schedule = schedule_for(extents);
  std::uint32_t step = 0;
  refresh(extents, schedule);
  driver.check(driver.cuStreamBeginCapture_v2(lane.stream(), constant::capture_thread_local), "capturing a step");
  CapturedGraph graph = nullptr;
  try {
    emit(schedule, delivers ? Emit::captured : Emit::captured_without_writes, lane, step);
  } catch (...) {
    driver.cuStreamEndCapture(lane.stream(), &graph);
    if (graph != nullptr) driver.cuGraphDestroy(graph);
    throw;
  }
  driver.check(driver.cuStreamEndCapture(lane.stream(), &graph), "capturing a step");
  GraphExec exec = nullptr;
  const Result made = driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver.cuGraphDestroy(graph);
  driver.check(made, "making a graph of a step");
  return exec;
}

/// Other instances may have mirrors of the memory that this one writes.
void Instance::forget_written() noexcept {
  for (std::uint32_t v = 0; v < plan_.written.size(); ++v)
    if (plan_.written[v]) gpu_.mirrors().forget(places_[v], plan_.graph.values[v].bytes);
}

/// What comes before a run's first kernel: patches, and counts that lie in device memory.
void Instance::bring_in(const quern_run& run, Lane& lane) {
  const Driver& driver = gpu_.driver();
  Launcher launcher(lane, false, *slot_);
  for (const quern_patch& patch : sdk::List<quern_patch>(run.patches, "patches")) {
    if (patch.bytes == 0) continue;
    std::uint64_t done = 0;
    while (done < patch.bytes) {
      const std::uint64_t part = std::min<std::uint64_t>(patch.bytes - done, Mailbox::largest);
      if (!lane.mailbox().fits(part)) {
        launcher.deliver();
        lane.synchronize("delivering patches");
      }
      lane.mailbox().put(places_[patch.value] + patch.offset + done, static_cast<const char*>(patch.data) + done,
                         static_cast<std::uint32_t>(part));
      done += part;
    }
    counters_.host_copies += patch.bytes;
  }
  limits_.read_extents([&](std::uint32_t value) {
    launcher.deliver();
    std::int32_t exact = 0;
    driver.check(driver.cuMemcpyDtoHAsync_v2(&exact, places_[value], sizeof exact, lane.stream()), "reading an extent");
    lane.synchronize("reading an extent");
    return exact;
  });
}

/// Enqueues it as a graph, or else one kernel after another, the last of them `step`.
void Instance::launch(Lane& lane, std::uint32_t& step) {
  const Schedule& schedule = schedule_for(extents_);
  auto ready = captured(lane);
  if (ready == captured_.end() && extents_ == uncaptured_ && takes_graph(extents_, schedule)) {
    capture_step(extents_, lane);
    ready = captured(lane);
  }
  if (plan_.without_graphs == nullptr && ready != captured_.end() && launch_captured(ready, lane)) return;
  const std::unique_lock kept = gpu_.shadows().keep();
  uncaptured_ = extents_;
  refresh(extents_, schedule);
  emit(schedule, Emit::now, lane, step);
  step = QUERN_NONE;
}

/// A run that fails before it starts takes nothing along that the host wrote before.
void Instance::deliver_waiting(Lane& lane) noexcept {
  try {
    lane.deliver();
  } catch (const Failure&) {         // of the device: every call to come tells it
  } catch (const std::bad_alloc&) {  // they wait for the next run
  }
}

void Instance::start(const quern_run& run, Lane& lane) {
  const Current current(gpu_.driver(), gpu_.context());
  const std::uint64_t allocations = gpu_.allocations();
  std::uint32_t step = QUERN_NONE;
  ++counters_.runs;
  try {
    check_cancel();
    bring_in(run, lane);
    launch(lane, step);
  } catch (Failure& failure) {
    deliver_waiting(lane);
    gpu_.driver().cuStreamSynchronize(lane.stream());
    forget_written();
    counters_.device_allocations += gpu_.allocations() - allocations;
    const Schedule& schedule = schedule_for(extents_);
    if (step < schedule.steps.size()) failure.node = schedule.steps[step].first_node;
    throw;
  }
  forget_written();
  for (Mirrors::Mirror* mirror : mirrors_) {
    mirror->lane = lane.id();
    mirror->point = lane.mark();
  }
  counters_.device_allocations += gpu_.allocations() - allocations;
}

void Instance::finish(const quern_run&, quern_run_status& outcome) {
  outcome.code = cancelled_ ? QUERN_CANCELLED : QUERN_OK;
  outcome.faults = slot_->take_faults();
}

}  // namespace quern::cuda
