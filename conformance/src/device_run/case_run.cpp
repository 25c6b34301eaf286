// See case_run.hpp.
#include "device_run/case_run.hpp"

#include "device_run/status_words.hpp"
#include "device_run/case_graph.hpp"
#include "device_run/prepared.hpp"
#include "device_run/weight_packing.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>

namespace quern::conformance {
namespace {

/// How many rows a run of a ranged case has.
std::int64_t rows_of_run(const Case& c) { return c.inputs[static_cast<std::size_t>(std::countr_zero(c.ranged.inputs))].dims[0]; }

/// The same in device memory.
Tensor count_tensor(std::int64_t count) {
  const Tensor tensor(QUERN_I32, {1});
  tensor.set(0, static_cast<double>(count));
  return tensor;
}

/// Of a tenth of the cases the inputs end before a closed page, so that a read behind them is seen; which, follows from the name.
Region::Guard guard_of(const Case& c) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char letter : c.name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
  return (hash >> 32) % 10 == 0 ? Region::Guard::page : Region::Guard::canary;
}

/// Whether the values of a case lie in one buffer: three small cases of four, by their names, where memory is not the host's. The others have a buffer
/// each.
bool shares_a_buffer(const loader::Device& device, const Case& c) {
  if ((device.info().caps & QUERN_CAP_HOST_MEMORY) != 0 || CounterRandom::of(c.name).stream(3003).below(0, 4) == 0) return false;
  constexpr std::uint64_t small = 256 << 10;
  std::uint64_t bytes = 0;
  for (const std::vector<ValueSpec>* values : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *values)
      if (!v.absent()) bytes += Placement(v.dtype, v.dims, v.layout).bytes();
  return bytes <= small && c.ranged.most == 0;
}

bool written_in_place(const Case& c, std::size_t input) {
  return std::ranges::any_of(c.outputs, [&](const ValueSpec& o) { return !o.absent() && o.in_place_of == static_cast<int>(input); });
}

/// The device memory of a case's values, by value id. An output in place has its input's.
class Memories {
 public:
  Memories(const loader::Device& device, Queue& queue, const Case& c, const CaseGraph& graph) {
    if (shares_a_buffer(device, c)) slab_ = std::make_unique<Slab>(device, queue);
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      if (!c.inputs[i].absent())
        add(device, queue, graph.input_id(i), c.inputs[i], (c.ranged.inputs >> i & 1u) != 0 ? c.ranged.most : 0,
            written_in_place(c, i) ? Region::Guard::canary : guard_of(c));
    for (std::size_t o = 0; o < c.outputs.size(); ++o)
      if (!c.outputs[o].absent() && c.outputs[o].in_place_of < 0)
        add(device, queue, graph.output_id(o), c.outputs[o], (c.ranged.outputs >> o & 1u) != 0 ? c.ranged.most : 0);
    if (graph.count_id() != QUERN_NONE) add_count(device, queue, graph.count_id(), rows_of_run(c));
    if (slab_ && !places_.empty()) slab_->allocate();
    else slab_.reset();
  }

  /// What was set is on the device only behind send(), and what a run wrote is seen only behind fetch().
  void send() {
    if (slab_) slab_->send();
  }
  void fetch() {
    if (slab_) slab_->fetch();
  }
  bool in_one() const noexcept { return slab_ != nullptr; }

  struct Place {
    Placement placement;
    std::unique_ptr<Region> region;
    bool dense = false;             // every byte belongs to an element
    std::vector<std::byte> before;  // unless dense: the whole memory as it was when the run started
    std::span<std::byte> values() { return std::span(before).first(placement.bytes()); }  // without the room behind ranged rows

    bool unchanged(const Contents& now, const Tensor& content) const {
      return now.holds(dense ? content.bytes() : std::span<const std::byte>(before));
    }
  };
  Place& at(std::uint32_t value) { return places_.at(value); }
  std::map<std::uint32_t, Place>& all() noexcept { return places_; }

  /// Fills the memory: gaps and what is not given with poison, the rest with the packed tensor.
  void set(std::uint32_t value, const Tensor* packed, std::byte poison) {
    Place& place = places_.at(value);
    if (place.dense) {
      if (packed != nullptr) place.region->write(packed->bytes());
      else place.region->fill(poison);
      return;
    }
    place.before.assign(place.region->bytes(), poison);
    if (packed != nullptr) place.placement.scatter(packed->bytes(), place.values());
    place.region->write(place.before);
  }

 private:
  /// `most`: the rows that there is room for; 0: those that there are.
  void add(const loader::Device& device, Queue& queue, std::uint32_t value, const ValueSpec& spec, std::int64_t most,
           Region::Guard guard = Region::Guard::canary) {
    Placement placement(spec.dtype, spec.dims, spec.layout);
    Dims room = spec.dims;
    if (most != 0) room[0] = most;
    const std::uint64_t bytes = Placement(spec.dtype, room, spec.layout).bytes();
    const bool dense = placement.packed() && placement.bytes() == bytes;
    auto region = slab_ ? std::make_unique<Region>(*slab_, bytes, spec.layout.shifted)
                        : std::make_unique<Region>(device, queue, bytes, 0, spec.layout.shifted, guard);
    places_.emplace(value, Place{std::move(placement), std::move(region), dense, {}});
  }
  void add_count(const loader::Device& device, Queue& queue, std::uint32_t value, std::int64_t count) {
    ValueSpec spec;
    spec.dtype = QUERN_I32;
    spec.dims = {1};
    add(device, queue, value, spec, 0);
    const Tensor tensor = count_tensor(count);
    set(value, &tensor, std::byte{0});
  }
  std::unique_ptr<Slab> slab_;
  std::map<std::uint32_t, Place> places_;
};

/// Which value ids a run may write: outputs, and inputs that an output lies in.
std::vector<std::uint32_t> written_values(const Case& c, const CaseGraph& graph) {
  std::vector<std::uint32_t> ids;
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    if (c.outputs[o].absent()) continue;
    const int input = c.outputs[o].in_place_of;
    ids.push_back(input < 0 ? graph.output_id(o) : graph.input_id(static_cast<std::size_t>(input)));
  }
  return ids;
}

struct OneRun {
  std::string problem;
  std::vector<Tensor> outputs;
  double seconds = 0;  // from the submit to the fence
};

/// The patches that bring the inputs of a patched case; their bytes are the tensors'.
std::vector<quern_patch> patches_of(const Case& c, const CaseData& data, const CaseGraph& graph) {
  std::vector<quern_patch> patches;
  if (!c.patched) return patches;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (!c.inputs[i].absent() && c.inputs[i].kind == QUERN_VALUE_INPUT)
      patches.push_back({graph.input_id(i), 0, 0, data.inputs[i].bytes().size(), data.inputs[i].bytes().data()});
  return patches;
}

/// Where a value that may be written was written all the same: between rows, or behind ranged rows. Empty: nowhere.
std::string misplaced_write(const Case& c, std::uint32_t id, Memories::Place& place, const std::vector<std::byte>& after) {
  const std::string value = "value " + std::to_string(id);
  if (!place.placement.packed()) {
    const std::vector<bool> covered = place.placement.covered();
    for (std::size_t b = 0; b < covered.size(); ++b)
      if (!covered[b] && after[b] != place.before[b]) return value + ": byte " + std::to_string(b) + " between its rows was written";
  }
  const std::size_t used = place.values().size();
  for (std::size_t b = used; b < after.size(); ++b)
    if (after[b] != place.before[b])
      return value + ": byte " + std::to_string(b - used) + " behind its " + std::to_string(rows_of_run(c)) + " rows was written";
  return {};
}

/// What an output holds after the run; where a byte beside it was written is `problem`.
Tensor read_output(const Case& c, const ValueSpec& spec, std::uint32_t id, Memories::Place& place, const Contents& now,
                   std::string& problem) {
  Tensor packed(spec.dtype, spec.dims);
  if (place.dense) {
    now.read_to(packed.bytes());
    return packed;
  }
  const std::vector<std::byte> after = now.read();
  if (std::string misplaced = misplaced_write(c, id, place, after); !misplaced.empty()) problem = std::move(misplaced);
  place.placement.gather(std::span(after).first(place.placement.bytes()), packed.bytes());
  return packed;
}

OneRun run_once(const Case& c, const CaseData& data, const CaseGraph& graph, Memories& memories, Prepared& prepared, std::byte poison,
                const Timing* timing) {
  const std::vector<quern_patch> patches = patches_of(c, data, graph);
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (!c.inputs[i].absent())
      memories.set(graph.input_id(i), c.patched && c.inputs[i].kind == QUERN_VALUE_INPUT ? nullptr : &data.inputs[i], poison);
  for (std::size_t o = 0; o < c.outputs.size(); ++o)
    if (!c.outputs[o].absent() && c.outputs[o].in_place_of < 0)
      memories.set(graph.output_id(o), data.states[o].absent() ? nullptr : &data.states[o], poison);
  memories.send();
  prepared.poison_scratch(poison);
  std::vector<quern_bound> bounds;
  if (c.ranged.most != 0 && !c.ranged.on_device) bounds.push_back({0, 0, rows_of_run(c)});
  if (timing != nullptr) prepared.queue().settle();  // the copies have no part in the time
  if (timing != nullptr && timing->before_each) timing->before_each();
  const auto start = std::chrono::steady_clock::now();
  const quern_run_status status = prepared.run(c.deadline_seconds, patches, bounds);

  OneRun result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (status.code != QUERN_OK)
    throw AbiFailure(status.code, "the run ended with " + status_words(status.code) +
                                      (status.node == QUERN_NONE ? " at no node" : " at node " + std::to_string(status.node)));
  if (status.faults != c.faults)
    result.problem = "the run raised the faults " + fault_words(status.faults) + ", expected " + fault_words(c.faults);
  const std::vector<std::uint32_t> written = written_values(c, graph);
  std::map<std::uint32_t, Contents> now;
  prepared.queue().gather();
  memories.fetch();
  const Contents scratch = prepared.scratch();
  if (memories.in_one()) prepared.queue().settle();  // what was fetched is here
  for (auto& [id, place] : memories.all()) now.emplace(id, *place.region);
  prepared.queue().settle();
  for (const auto& [id, contents] : now)
    if (const std::string damage = contents.canary_damage(); !damage.empty())
      result.problem = "value " + std::to_string(id) + ": " + damage;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].absent() || std::ranges::find(written, graph.input_id(i)) != written.end()) continue;
    const std::uint32_t id = graph.input_id(i);
    if (!memories.at(id).unchanged(now.at(id), data.inputs[i])) result.problem = "value " + std::to_string(id) + ", an input, was changed";
  }
  if (graph.count_id() != QUERN_NONE && !memories.at(graph.count_id()).unchanged(now.at(graph.count_id()), count_tensor(rows_of_run(c))))
    result.problem = "the count of rows, an input, was changed";
  if (const std::string damage = scratch.canary_damage(); !damage.empty()) result.problem = "scratch: " + damage;
  std::size_t w = 0;
  for (const ValueSpec& spec : c.outputs) {
    if (spec.absent()) {
      result.outputs.emplace_back();
      continue;
    }
    const std::uint32_t id = written[w++];
    result.outputs.push_back(read_output(c, spec, id, memories.at(id), now.at(id), result.problem));
  }
  return result;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].absent() && !std::ranges::equal(a[i].bytes(), b[i].bytes())) return false;
  return true;
}

/// "" for a yes; else the reason. Gives constants to the compiler where the plugin asks for them.
std::string ask_support(const loader::Device& device, const Case& c, const CaseData& data, CaseGraph& graph) {
  for (int round = 0; round < 2; ++round) {
    const SupportAnswer answer = support_of(device, graph.graph());
    if (answer.verdict == QUERN_ANSWER_YES || answer.verdict == QUERN_ANSWER_YES_IN_GROUP) return {};
    if (answer.verdict != QUERN_ANSWER_YES_IF) return answer.text.empty() ? "no reason given" : answer.text;
    if (answer.needs_other_than_values) return "only under a requirement that a single canonical node does not meet";
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      if (c.inputs[i].kind == QUERN_VALUE_CONSTANT && c.inputs[i].layout.packed())
        graph.set_data(graph.input_id(i), data.inputs[i].bytes());
  }
  return "still asks for values that it was given";
}

/// `fresh`, with the constants of `data`: weights are packed before the runs.
CaseData with_constants(const Case& c, CaseData fresh, const CaseData& data) {
  for (std::size_t i = 0; c.derive == nullptr && i < c.inputs.size(); ++i)
    if (c.inputs[i].kind == QUERN_VALUE_CONSTANT) fresh.inputs[i] = data.inputs[i];
  return fresh;
}

/// The timed runs. Each is checked as any other. It must give the bits of a run on the same data that is not timed.
std::string run_timed(const Case& c, const CaseData& data, const CaseGraph& graph, Memories& memories, Prepared& prepared,
                      const OneRun& first, Timing& timing) {
  for (std::uint32_t k = 0; k < timing.samples; ++k) {
    const bool other = timing.data_of != nullptr;
    const CaseData own = other ? with_constants(c, timing.data_of(k), data) : data;
    const OneRun run = run_once(c, own, graph, memories, prepared, poisons[k % 2], &timing);
    if (!run.problem.empty()) return "timed run " + std::to_string(k + 1) + ": " + run.problem;
    const bool compared = k == 0 || k + 1 == timing.samples;  // with a second run of its data: the first and the last stand for all
    if (other && compared) {
      const OneRun again = run_once(c, own, graph, memories, prepared, poisons[(k + 1) % 2], nullptr);
      if (!again.problem.empty()) return "the run behind timed run " + std::to_string(k + 1) + ": " + again.problem;
      if (!same_bits(again.outputs, run.outputs))
        return "timed run " + std::to_string(k + 1) + " gave other bits than a run of the same data behind it";
    } else if (!other && !same_bits(first.outputs, run.outputs)) {
      return "timed run " + std::to_string(k + 1) + " gave other bits than the first run";
    }
    timing.seconds.push_back(run.seconds);
  }
  return {};
}

/// A case runs more than once, and its runs must agree.
std::uint32_t asked_determinism(const ModeResult& mode) {
  return mode.as_session ? std::uint32_t{QUERN_DETERMINISM_INVARIANT} : std::uint32_t{QUERN_DETERMINISM_REPEATABLE};
}

void run_mode(const loader::Device& device, Queue& queue, const Case& c, const CaseData& data, const PlanOptions& options, ModeResult& mode,
              Timing* timing) {
  CaseGraph graph(c, mode.numerics == Numerics::fast ? c.fast_conversions : 0, asked_determinism(mode));
  Memories memories(device, queue, c, graph);
  std::map<std::uint32_t, std::unique_ptr<Region>> packed;
  if (mode.packed) {
    std::map<std::uint32_t, Region*> sources;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.inputs[i].kind != QUERN_VALUE_CONSTANT) continue;
      memories.set(graph.input_id(i), &data.inputs[i], poisons[0]);
      sources[graph.input_id(i)] = memories.at(graph.input_id(i)).region.get();
    }
    memories.send();
    packed = pack_weights(device, queue, graph, sources, guard_of(c));
    if (packed.empty()) {
      mode.outcome = Outcome::unsupported;  // nothing to pack: the caller drops the mode
      return;
    }
  }
  if (const std::string reason = ask_support(device, c, data, graph); !reason.empty()) {
    mode.outcome = Outcome::unsupported;
    mode.text = reason;
    if (const quern_status status = Prepared::try_compile(device, graph.graph());
        status != QUERN_UNSUPPORTED && status != QUERN_INVALID_ARGUMENT) {
      mode.outcome = Outcome::failed;
      mode.text = "support says no (" + reason + ") and compile answered " + status_words(status) + ", expected UNSUPPORTED";
    }
    return;
  }
  if (!options.force_kernel.empty() && !Prepared::plan_of(device, graph.graph(), options)) {
    mode.outcome = Outcome::unsupported;  // refused where none fits: the caller drops the mode
    return;
  }
  std::map<std::uint32_t, Region*> bindings;
  for (auto& [id, place] : memories.all()) bindings[id] = place.region.get();
  for (auto& [id, region] : packed) bindings[id] = region.get();
  Prepared prepared(device, queue, graph.graph(), bindings, options);
  mode.kernel = prepared.kernels();
  mode.facts = prepared.facts();
  mode.label = options.force_kernel;
  std::optional<OneRun> first;
  if (mode.facts.told && mode.facts.determinism < asked_determinism(mode)) {
    mode.text = "the plan's determinism is " + std::to_string(mode.facts.determinism) + ", its node asks for " +
                std::to_string(asked_determinism(mode)) + " [C17]";
    return;
  }
  for (int r = 0; r < runs_of(c); ++r) {
    OneRun run = run_once(c, data, graph, memories, prepared, poisons[r % 2], nullptr);
    if (!run.problem.empty()) {
      mode.text = r < 2 ? run.problem : "run " + std::to_string(r + 1) + ": " + run.problem;
      return;
    }
    if (first && !same_bits(first->outputs, run.outputs)) {
      mode.text = r < 2 ? "two runs on the same inputs differ: an output depends on what lay in outputs, gaps or scratch before"
                        : "two runs on the same inputs differ: run " + std::to_string(r + 1) + " gave other bits than those before it";
      return;
    }
    if (!first) first = std::move(run);
  }
  if (timing != nullptr) {
    mode.text = run_timed(c, data, graph, memories, prepared, *first, *timing);
    if (!mode.text.empty()) return;
  }
  mode.outputs = std::move(first->outputs);
  mode.outcome = Outcome::ran;
}

void guarded_mode(const loader::Device& device, Queue& queue, const Case& c, const CaseData& data, const PlanOptions& options,
                  ModeResult& mode, Timing* timing = nullptr) {
  try {
    run_mode(device, queue, c, data, options, mode, timing);
  } catch (const AbiFailure& failure) {
    mode.outcome = failure.status() == QUERN_DEVICE_LOST                                                     ? Outcome::device_lost
                   : failure.status() == QUERN_OUT_OF_MEMORY || failure.status() == QUERN_HOST_OUT_OF_MEMORY ? Outcome::resource
                                                                                                             : Outcome::failed;
    mode.text = failure.what();
  } catch (const std::bad_alloc&) {
    mode.outcome = Outcome::resource;
    mode.text = "the suite itself is out of host memory";
  }
}

bool has_constant(const Case& c) {
  return std::ranges::any_of(c.inputs, [](const ValueSpec& v) { return v.kind == QUERN_VALUE_CONSTANT && v.layout.packed(); });
}

bool on_cpu(const loader::Device& device) { return device.info().device_class == QUERN_DEVICE_CPU; }

/// Whether a mode as a session asks adds nothing to the one before it, or is one that the device need not have.
bool left_out(const loader::Device& device, const ModeResult& plain, const ModeResult& as_session) {
  if (as_session.outcome == Outcome::unsupported && (as_session.text.empty() || !on_cpu(device) || plain.outcome == Outcome::unsupported))
    return true;
  return plain.outcome == Outcome::ran && as_session.outcome == Outcome::ran && plain.kernel == as_session.kernel &&
         same_bits(plain.outputs, as_session.outputs);
}

}  // namespace

bool runs_as_session(const loader::Device& device, const Case& c) {
  if (c.profile == Profile::huge && !c.graph) return false;                   // host_bytes() counts the outputs of the other modes alone
  const bool software = device.info().device_class == QUERN_DEVICE_SOFTWARE;  // it compiles slowly
  return on_cpu(device) || CounterRandom::of(c.name).stream(3000).below(0, software ? 24 : 6) == 0;
}

bool spares_layouts(const loader::Device& device, const Case& c) {
  return device.info().device_class == QUERN_DEVICE_SOFTWARE && CounterRandom::of(c.name).stream(3002).below(0, 4) != 0;
}

std::uint32_t session_determinism(const loader::Device& device, const Case& c) {
  const bool invariant = on_cpu(device) || CounterRandom::of(c.name).stream(3003).below(0, 2) == 0;
  return invariant ? std::uint32_t{QUERN_DETERMINISM_INVARIANT} : std::uint32_t{QUERN_DETERMINISM_REPEATABLE};
}

int runs_of(const Case& c) { return c.profile != Profile::huge && CounterRandom::of(c.name).stream(3001).below(0, 3) == 0 ? 3 : 2; }

std::vector<ModeResult> run_case(const loader::Device& device, const Case& c, const CaseData& data, const PlanOptions& options) {
  Queue queue(device);
  queue.write_ahead();
  std::vector<ModeResult> results;
  for (const Numerics numerics : {Numerics::exact, Numerics::fast}) {
    if (numerics == Numerics::fast && c.fast_conversions == 0) continue;
    for (const bool packed : {false, true}) {
      if (packed && (!has_constant(c) || device.api().weights_plan == nullptr)) continue;
      ModeResult plain;
      for (const bool as_session : {false, true}) {
        if (as_session && !runs_as_session(device, c)) continue;
        ModeResult mode;
        mode.numerics = numerics;
        mode.packed = packed;
        mode.as_session = as_session;
        guarded_mode(device, queue, c, data, options, mode);
        if (as_session ? left_out(device, plain, mode) : mode.outcome == Outcome::unsupported && mode.text.empty()) continue;
        const bool lost = mode.outcome == Outcome::device_lost;
        if (!as_session) plain = mode;
        results.push_back(std::move(mode));
        if (lost) return results;
      }
    }
  }
  return results;
}

ModeResult time_case(const loader::Device& device, const Case& c, const CaseData& data, Timing& timing) {
  Queue queue(device);
  ModeResult mode;
  for (const Numerics numerics : {Numerics::fast, Numerics::exact}) {
    if (numerics == Numerics::fast && c.fast_conversions == 0) continue;
    for (const bool packed : {true, false}) {
      if (packed && (!has_constant(c) || device.api().weights_plan == nullptr)) continue;
      mode = {};
      mode.numerics = numerics;
      mode.packed = packed;
      guarded_mode(device, queue, c, data, {}, mode, &timing);
      if (mode.outcome != Outcome::unsupported) return mode;
    }
  }
  return mode;
}

}  // namespace quern::conformance
