// prepare and submit: private copies of inputs, edits before and after a run, and what goes wrong in a run on purpose.
#include "plugin.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

PrivateMemory::PrivateMemory(std::uint64_t bytes)
    : storage_(std::make_unique_for_overwrite<std::byte[]>(bytes + alignment)), bytes_(bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(storage_.get());
  data_ = storage_.get() + (alignment - at % alignment) % alignment;
}

bool quern_plan::triggers() const noexcept {
  return graph && !graph->values.empty() && graph->values[0].rank > 0 && graph->values[0].dims[0] == 17;
}

std::byte* quern_instance::host_memory(std::uint32_t value) const noexcept {
  std::uint64_t offset = 0;
  while (value < bound.memory.size()) {
    if (bound.memory[value] != nullptr) return bound.memory[value] + offset;
    const quern_value& v = plan->graph->values[value];
    if ((v.uses & QUERN_VALUE_USES_ALIAS) == 0 || v.alias_of >= value) return nullptr;
    offset += v.alias_offset;
    value = v.alias_of;
  }
  return nullptr;
}

namespace quern::mutant {
namespace {

template <class T>
T clamped(T s) {
  s.header.struct_size = std::min<std::uint32_t>(s.header.struct_size, sizeof(T));
  return s;
}

bool is_aliased(const GraphCopy& graph, std::uint32_t value) {
  for (const quern_value& v : graph.values)
    if ((v.uses & QUERN_VALUE_USES_ALIAS) != 0 && v.alias_of == value) return true;
  return false;
}

/// Whether the plugin underneath gets this value in memory of ours.
bool is_private(const quern_instance& instance, std::uint32_t value) {
  const Mutation& m = instance.plan->device->plugin->mutation;
  if (m.behaviour == Behaviour::wrong_memory) return true;
  if (m.copied_inputs.empty() || is_aliased(*instance.plan->graph, value)) return false;
  for (const NodeCopy& node : instance.plan->graph->nodes)
    if (m.is_about(node))
      for (const std::size_t i : m.copied_inputs)
        if (node.input(i) == value) return true;
  return false;
}

/// The binding of one value for the plugin underneath. Notes where the host's memory is.
quern_span bound_span(const quern_instance& instance, quern_instance::Bound& bound, std::uint32_t value, const quern_span& given) {
  quern_span span = host_span(*instance.plan->device, given);
  if (!instance.plan->graph || value >= instance.plan->graph->values.size() || span.host == nullptr) return span;
  bound.memory[value] = static_cast<std::byte*>(span.host);
  if (is_private(instance, value)) {
    const auto made = bound.copies.emplace(value, PrivateMemory(span.bytes));
    span.host = made.first->second.data();
  } else if (instance.plan->device->plugin->behaviour() == Behaviour::ignores_offset) {
    span.host = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(span.host) & ~std::uintptr_t{4095});
  }
  return span;
}

/// The first row of a ranged value as a value of its own.
quern_value first_row(quern_value value) {
  for (std::uint32_t d = 0; d < value.rank; ++d)
    if (value.symbols[d] != QUERN_NONE) value.dims[d] = 1;
  value.uses &= ~QUERN_VALUE_USES_SYMBOLS;
  return value;
}

std::vector<Slot> slots(const quern_instance& instance, const std::vector<std::uint32_t>& values, bool copies) {
  std::vector<Slot> list;
  for (const std::uint32_t v : values) {
    std::byte* at = v == QUERN_NONE ? nullptr : instance.host_memory(v);
    if (const auto copy = instance.bound.copies.find(v); copies && at != nullptr && copy != instance.bound.copies.end())
      at = const_cast<PrivateMemory&>(copy->second).data();
    if (at == nullptr) {
      list.emplace_back();
      continue;
    }
    const quern_value& value = instance.plan->graph->values[v];
    const bool first = instance.plan->device->plugin->mutation.first_rows && (value.uses & QUERN_VALUE_USES_SYMBOLS) != 0;
    list.emplace_back(first ? first_row(value) : value, at);
  }
  return list;
}

/// The nodes that a mutation is about, with what their outputs held before the run.
class Edits {
 public:
  explicit Edits(quern_instance& instance) : mutation_(instance.plan->device->plugin->mutation), instance_(instance) {
    if (!instance.plan->graph || !instance.prepared || (mutation_.only_fused && !instance.plan->fused)) return;
    for (const NodeCopy& node : instance.plan->graph->nodes) {
      if (!mutation_.is_about(node)) continue;
      std::vector<Slot> inputs = slots(instance, node.inputs, true), outputs = slots(instance, node.outputs, false), kept;
      if (!complete(node, mutation_.needs_inputs && mutation_.behaviour == Behaviour::none, mutation_.needs_outputs, inputs, outputs))
        continue;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        kept_.emplace_back(outputs[o].bytes());
        if (!outputs[o].absent()) std::memcpy(kept_.back().data(), outputs[o].at(0), outputs[o].bytes());
        kept.push_back(outputs[o].absent() ? Slot() : outputs[o].over(kept_.back().data()));
      }
      nodes_.emplace_back(node, std::move(inputs), std::move(outputs), std::move(kept));
    }
  }

  void before() const {
    for (const auto& [value, copy] : instance_.bound.copies)
      if (instance_.bound.memory[value] != nullptr && mutation_.behaviour != Behaviour::wrong_memory)
        std::memcpy(const_cast<PrivateMemory&>(copy).data(), instance_.bound.memory[value], copy.bytes());
    if (!mutation_.before) return;
    for (const NodeRun& node : nodes_) mutation_.before(node);
  }
  void after() const {
    if (!mutation_.after) return;
    for (const NodeRun& node : nodes_) mutation_.after(node);
  }
  const std::vector<NodeRun>& nodes() const noexcept { return nodes_; }

 private:
  /// Nodes inside of larger graphs whose values lie in scratch are left alone, as are empty ones.
  static bool complete(const NodeCopy& node, bool needs_inputs, bool needs_outputs, const std::vector<Slot>& inputs,
                       const std::vector<Slot>& outputs) {
    for (std::size_t i = 0; needs_inputs && i < inputs.size(); ++i)
      if (node.inputs[i] != QUERN_NONE && inputs[i].absent()) return false;
    for (std::size_t o = 0; needs_outputs && o < outputs.size(); ++o)
      if (node.outputs[o] != QUERN_NONE && outputs[o].absent()) return false;
    return !outputs.empty();
  }

  const Mutation& mutation_;
  quern_instance& instance_;
  std::vector<std::vector<std::byte>> kept_;
  std::vector<NodeRun> nodes_;
};

void write_line(int descriptor, const char* text) {
  if (::write(descriptor, text, std::strlen(text)) < 0) std::_Exit(71);
}

/// What happens in the place of a run, of those that trigger it.
void happen_instead(quern_plugin& plugin, const quern_instance& instance) {
  if (!instance.plan->triggers()) return;
  switch (plugin.behaviour()) {
    case Behaviour::crash: ::raise(SIGSEGV); return;
    case Behaviour::hang:
      for (;;) ::pause();
    case Behaviour::exit_70: std::exit(70);
    case Behaviour::exit_0: std::_Exit(0);
    case Behaviour::lost_device: plugin.lost = true; throw sdk::Failure(QUERN_DEVICE_LOST, "the device was lost");
    default: return;
  }
}

/// Manners [C9]: what a run leaves behind in the process.
void misbehave(const quern_plugin& plugin) {
  switch (plugin.behaviour()) {
    case Behaviour::prints: return write_line(1, "mutant: a line on stdout\n");
    case Behaviour::prints_to_stderr: return write_line(2, "mutant: a line on stderr\n");
    case Behaviour::leaks_memory: plugin.host->allocate(plugin.host->context, 4096, 64, "leak"); return;
    case Behaviour::sets_environment: ::setenv("QUERN_MUTANT", "1", 1); return;
    case Behaviour::sets_rounding: std::fesetround(FE_TOWARDZERO); return;
    case Behaviour::sets_signal: ::signal(SIGUSR1, SIG_IGN); return;
    case Behaviour::sets_directory:
      if (::chdir("/") != 0) std::_Exit(71);
      return;
    default: return;
  }
}

/// Flips the lowest bit of the first element of the first output.
void flip_first_bit(const Edits& edits) {
  if (!edits.nodes().empty()) *edits.nodes()[0].output(0).at(0) ^= std::byte{1};
}

/// As a kernel does that reads whole vectors.
void read_behind(const Slot& x) {
  if (x.absent()) return;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const volatile std::byte seen = x.at(0)[x.bytes() + i];
    (void)seen;
  }
}

/// What the bound memory gets beyond the result.
void spoil_memory(quern_plugin& plugin, quern_instance& instance, const Edits& edits) {
  if (edits.nodes().empty()) return;
  const Slot y = edits.nodes()[0].output(0), x = edits.nodes()[0].input(0);
  std::byte* const first = y.at(0);
  switch (plugin.behaviour()) {
    case Behaviour::writes_past_end: std::memset(first + y.bytes(), 0x5a, 16); return;
    case Behaviour::writes_before: std::memset(first - 16, 0x5a, 16); return;
    case Behaviour::writes_gap: {
      if (y.rows() < 2) return;
      std::byte* const end = y.at(y.row() - 1) + y.unit_bytes();
      if (end < y.at(y.row())) *end ^= std::byte{1};
      return;
    }
    case Behaviour::writes_scratch_end:
      if (instance.bound.scratch != nullptr) instance.bound.scratch[instance.bound.scratch_bytes] ^= std::byte{1};
      return;
    case Behaviour::writes_input:
      if (!x.absent()) *x.at(x.count() / 2) ^= std::byte{1};
      return;
    case Behaviour::reads_behind_inputs: return read_behind(x);
    case Behaviour::reads_behind_weights: return read_behind(edits.nodes()[0].input(1));
    case Behaviour::depends_on_scratch: {
      const std::byte* const watched = instance.bound.scratch + instance.bound.scratch_bytes - watched_scratch;
      if ((*watched & std::byte{2}) != std::byte{0}) flip_first_bit(edits);
      return;
    }
    case Behaviour::depends_on_run:
      if (instance.runs % 2 == 1) flip_first_bit(edits);
      return;
    case Behaviour::depends_on_third_run:
      if (instance.runs % 3 == 2) flip_first_bit(edits);
      return;
    case Behaviour::depends_on_output:
      if ((*edits.nodes()[0].kept(0).at(0) & std::byte{2}) != std::byte{0}) flip_first_bit(edits);
      return;
    case Behaviour::previous_answer: {
      if (instance.answer.empty()) instance.answer.assign(first, first + y.bytes());
      const std::lock_guard lock(plugin.lock);
      if (plugin.answer.size() == y.bytes()) std::memcpy(first, plugin.answer.data(), y.bytes());
      return;
    }
    default: return;
  }
}

void spoil_status(quern_plugin& plugin, const quern_instance& instance, quern_run_status* status) {
  if (status == nullptr) return;
  if (plugin.behaviour() == Behaviour::lost_in_status && instance.plan->triggers()) {
    plugin.lost = true;
    status->code = QUERN_DEVICE_LOST;
  }
  if (plugin.behaviour() == Behaviour::failed_status) status->code = QUERN_INTERNAL;
  if (plugin.behaviour() == Behaviour::silent_fault) status->faults = 0;
  if (plugin.behaviour() == Behaviour::invented_fault) status->faults |= QUERN_FAULT_NON_FINITE;
}

quern_status finished(quern_run_status* status) {
  if (status != nullptr) {
    status->code = QUERN_OK;
    status->node = QUERN_NONE;
    status->op = status->rule = 0;
    status->faults = 0;
  }
  return QUERN_OK;
}

/// The run as the plugin underneath gets it.
quern_run under_run(const quern_plugin& plugin, quern_run run) {
  run = clamped(run);
  quern_instance* instance = run.instance;
  if (instance == nullptr) return run;
  if (plugin.behaviour() == Behaviour::shared_bindings && instance->plan->prepared_last != nullptr)
    instance = instance->plan->prepared_last;
  run.instance = instance->under;
  if (plugin.behaviour() == Behaviour::ignores_patches) run.patches = {};
  if (plugin.behaviour() == Behaviour::accepts_run_flags) run.flags = 0;
  return run;
}

constexpr std::size_t most_at_once = 16;

/// Mutants that leave values and memory alone: their runs go on as they come.
bool edits_nothing(const Mutation& m) noexcept {
  switch (m.behaviour) {
    case Behaviour::none:
    case Behaviour::allocates:
    case Behaviour::maps_in_submit:
    case Behaviour::maps_in_first_submit:
    case Behaviour::opens_file_in_submit:
    case Behaviour::looks_for_file_in_submit:
    case Behaviour::thread_in_submit:
    case Behaviour::counts_allocation:
    case Behaviour::counts_compile:
    case Behaviour::counts_rerecord:
    case Behaviour::ignores_patches:
    case Behaviour::accepts_run_flags:
    case Behaviour::shared_bindings: return !m.before && !m.after;
    default: return false;
  }
}

/// Mutants whose submit asks something of the system.
void ask_the_system(const quern_plugin& plugin, bool first) {
  switch (plugin.behaviour()) {
    case Behaviour::allocates: return ::operator delete(::operator new(64));
    case Behaviour::maps_in_first_submit:
      if (!first) return;
      [[fallthrough]];
    case Behaviour::maps_in_submit:
      ::munmap(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
      return;
    case Behaviour::opens_file_in_submit: ::close(::open("/dev/null", O_RDONLY | O_CLOEXEC)); return;
    case Behaviour::looks_for_file_in_submit: (void)::access("/etc/quern-mutant", R_OK); return;
    case Behaviour::thread_in_submit: std::thread([] {}).join(); return;
    default: return;
  }
}

quern_status submit_under(quern_device& device, quern_queue* queue, const quern_run* runs, std::size_t count, quern_error* error) {
  const quern_array list{runs, count, sizeof(quern_run)};
  return device.plugin->api().submit(device.under, queue, &list, error);
}

quern_status run_one(quern_device& device, quern_queue* queue, const quern_run& run, quern_error* error) {
  quern_plugin& plugin = *device.plugin;
  quern_instance& instance = *run.instance;
  if (plugin.behaviour() == Behaviour::null_plugin) return finished(run.status);
  if (plugin.behaviour() == Behaviour::accepts_unprepared && !instance.prepared) return finished(run.status);
  happen_instead(plugin, instance);
  const Edits edits(instance);
  edits.before();
  const quern_run under = under_run(plugin, run);
  if (const quern_status status = submit_under(device, queue, &under, 1, error); status != QUERN_OK) return status;
  edits.after();
  spoil_memory(plugin, instance, edits);
  spoil_status(plugin, instance, run.status);
  misbehave(plugin);
  ++instance.runs;
  return QUERN_OK;
}

}  // namespace

quern_status prepare_entries(quern_device& device, quern_queue* queue, const quern_array& entries, const quern_sync* sync,
                             quern_error* error) {
  quern_plugin& plugin = *device.plugin;
  std::vector<quern_prepare_entry> list;
  std::vector<quern_instance*> instances;
  std::vector<quern_instance::Bound> bound;
  std::vector<std::vector<quern_binding>> bindings;
  std::vector<std::vector<quern_span>> spans;
  for (quern_prepare_entry entry : sdk::List<quern_prepare_entry>(entries, "entries")) {
    entry = clamped(entry);
    if (entry.instance == nullptr) throw sdk::Failure(QUERN_INVALID_ARGUMENT, "a prepare entry names no instance");
    quern_instance& instance = *entry.instance;
    instances.push_back(&instance);
    quern_instance::Bound& given = bound.emplace_back();
    if (plugin.behaviour() == Behaviour::null_plugin) continue;
    given.memory.assign(instance.plan->graph ? instance.plan->graph->values.size() : 0, nullptr);
    bindings.emplace_back();
    for (quern_binding b : sdk::List<quern_binding>(entry.bindings, "bindings")) {
      b = clamped(b);
      spans.emplace_back();
      for (const quern_span& s : sdk::List<quern_span>(b.spans, "spans")) spans.back().push_back(bound_span(instance, given, b.value, s));
      b.spans = {spans.back().data(), spans.back().size(), sizeof(quern_span)};
      if (plugin.behaviour() == Behaviour::accepts_run_flags) b.flags = 0;
      bindings.back().push_back(b);
    }
    entry.bindings = {bindings.back().data(), bindings.back().size(), sizeof(quern_binding)};
    entry.scratch = host_span(device, entry.scratch);
    given.scratch = static_cast<std::byte*>(entry.scratch.host);
    given.scratch_bytes = entry.scratch.bytes;
    entry.instance = instance.under;
    list.push_back(entry);
  }
  if (plugin.behaviour() == Behaviour::null_plugin) return QUERN_OK;
  const quern_array under{list.data(), list.size(), sizeof(quern_prepare_entry)};
  const quern_status status = plugin.api().prepare(device.under, queue, &under, sync, error);
  if (status != QUERN_OK) return status;  // the earlier bindings stand
  for (std::size_t i = 0; i < instances.size(); ++i) {
    instances[i]->bound = std::move(bound[i]);
    instances[i]->prepared = true;
    instances[i]->runs = 0;
    instances[i]->plan->prepared_last = instances[i];
    if (plugin.behaviour() == Behaviour::prepare_writes) flip_first_bit(Edits(*instances[i]));
  }
  return QUERN_OK;
}

void throw_across(quern_device* device, const quern_array* runs) {
  if (device == nullptr || runs == nullptr || device->plugin->behaviour() != Behaviour::throws || runs->count == 0) return;
  const quern_instance* first = static_cast<const quern_run*>(runs->data)->instance;
  if (first != nullptr && first->plan->triggers()) throw std::runtime_error("an exception that crosses the C boundary");
}

quern_status submit_runs(quern_device& device, quern_queue* queue, const quern_array& runs, quern_error* error) {
  quern_plugin& plugin = *device.plugin;
  const sdk::List<quern_run> list(runs, "runs");
  const Mutation& m = plugin.mutation;
  ask_the_system(plugin, device.submits++ == 0);
  if (edits_nothing(m) && list.size() <= most_at_once) {  // as one call, which is all or nothing; and without a heap, as submit must be
    quern_run all[most_at_once];
    std::size_t count = 0;
    for (const quern_run& run : list) all[count++] = under_run(plugin, run);
    return submit_under(device, queue, all, count, error);
  }
  std::size_t index = 0;
  for (const quern_run& run : list) {
    if (run.instance == nullptr) throw sdk::Failure(QUERN_INVALID_ARGUMENT, "a run names no instance");
    if (is_of_sessions(m.behaviour)) {
      if (const quern_status status = run_in_session(device, queue, run, index++, list.size(), error); status != QUERN_OK) return status;
      continue;
    }
    if (m.behaviour == Behaviour::late_run) {
      finished(run.status);
      const std::lock_guard lock(device.lock);
      device.late.push_back(run);
      device.late.back().status = nullptr;
      device.late.back().patches = device.late.back().bounds = {};  // the host's memory, and only until submit returns
      continue;
    }
    if (const quern_status status = run_one(device, queue, run, error); status != QUERN_OK) return status;
  }
  return QUERN_OK;
}

void finish_late_runs(quern_device& device) {
  std::vector<quern_run> runs;
  {
    const std::lock_guard lock(device.lock);
    runs.swap(device.late);
  }
  for (const quern_run& run : runs) run_one(device, nullptr, run, nullptr);
}

}  // namespace quern::mutant
