// See program.hpp.
#include "program.hpp"

#include "runtime.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace quern::runtime {
namespace {

bool has_symbol(const graph::Value& value) {
  return std::ranges::any_of(value.shape, [](const graph::Dim& d) { return d.symbol != 0; });
}

std::uint64_t bytes_per_row(const graph::Value& value) {
  graph::Shape row = value.shape;
  for (graph::Dim& d : row) {
    if (d.symbol != 0) d = graph::Dim(1);
  }
  return graph::byte_size(value.dtype, row);
}

}  // namespace

Program::Program(graph::Graph graph, std::vector<std::shared_ptr<MemoryBudget>> devices, Fallback fallback, const std::string& force_kernel,
                 const Assignment& assignment, RunAhead ahead)
    : graph_(std::move(graph)), devices_(std::move(devices)), ahead_(std::move(ahead)) {
  std::vector<std::shared_ptr<loader::Device>> list;
  for (const auto& budget : devices_) list.push_back(budget->device());
  const Placement placement = place(graph_, list, fallback, assignment);
  const std::vector<Segment> cut = segments(placement);
  std::vector<std::vector<std::uint32_t>> nodes;
  for (const Segment& segment : cut) nodes.push_back(segment.nodes);
  std::vector<graph::Graph::Part> made = graph_.parts(nodes, graph_.name());
  readers_.resize(graph_.values().size());
  for (std::size_t i = 0; i < cut.size(); ++i) {
    for (const graph::ValueId value : made[i].whole) {
      std::vector<std::uint32_t>& readers = readers_[value];
      if (std::ranges::find(readers, cut[i].device) == readers.end()) readers.push_back(cut[i].device);
    }
    Part part{
        cut[i].device, std::move(made[i].whole), std::move(made[i].graph), nullptr, {}, static_cast<std::uint32_t>(cut[i].nodes.size())};
    parts_.push_back(std::move(part));
  }
  plan_weights();
  if (parts_.size() != 1 || devices_[parts_[0].device]->host_memory()) ahead_ = {};
  for (Part& part : parts_)
    part.plan = std::make_unique<Plan>(list[part.device], part.graph, force_kernel, ahead_.followers, ahead_.bounds);
  find_transfers(placement);
  queues_.resize(devices_.size());
}

Program::~Program() { drain(); }

/// A device sees all its parts at once, so that parts share what they both read.
void Program::plan_weights() {
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    std::vector<const graph::Graph*> graphs;
    std::vector<Part*> parts;
    for (Part& part : parts_) {
      if (part.device != d) continue;
      graphs.push_back(&part.graph);
      parts.push_back(&part);
    }
    if (graphs.empty()) {
      weight_sets_.emplace_back();
      continue;
    }
    const WeightSet& set = weight_sets_.emplace_back(devices_[d], graphs);
    for (std::size_t i = 0; i < set.weights().size(); ++i) {
      const PackedWeight& weight = set.weights()[i];
      for (std::size_t s = 0; s < weight.values.size(); ++s) {
        Part& part = *parts[weight.graphs[s]];
        packed_[{part.whole[weight.values[s]], d}] = i;
        part.graph.set_layout(weight.values[s], weight.layout);
      }
    }
  }
}

const PackedWeight* Program::packed(graph::ValueId value, std::uint32_t device) const {
  const auto found = packed_.find({value, device});
  return found == packed_.end() ? nullptr : &weight_sets_[device].weights()[found->second];
}

void Program::pack(graph::ValueId value, std::uint32_t device, std::span<const std::byte> source, quern_span destination,
                   PackingRoom& room) const {
  weight_sets_[device].pack(packed_.at({value, device}), source, destination, room);
}

graph::ValueId Program::root(graph::ValueId value) const {
  while (graph_.value(value).alias_of != graph::no_value) value = graph_.value(value).alias_of;
  return value;
}

void Program::find_transfers(const Placement& placement) {
  const std::vector<Crossing> found = crossings(graph_, placement);
  auto next = found.begin();
  std::uint32_t first_node = 0;
  for (Part& part : parts_) {
    const std::uint32_t last_node = first_node + part.nodes;
    std::string of_part;  // the first reason that a node of the part has
    for (std::uint32_t n = first_node; of_part.empty() && n < last_node; ++n) of_part = placement.reason_of_node[n];
    for (; next != found.end() && next->reader < last_node; ++next) {
      part.copies_in.push_back(transfers_.size());
      transfers_.push_back({next->value, next->from, next->to});

      const graph::Value& value = graph_.value(next->value);
      const std::string& of_maker = placement.reason_of_node[next->maker];
      Cut cut;
      cut.value = value.name;
      cut.from = devices_[next->from]->device()->label();
      cut.to = devices_[next->to]->device()->label();
      cut.reason = of_maker.empty() ? of_part : of_maker;
      (has_symbol(value) ? cut.bytes_per_row : cut.bytes) = bytes_per_row(value);
      cuts_.push_back(std::move(cut));
    }
    first_node = last_node;
  }
}

void Program::bind_constant(graph::ValueId value, std::uint32_t device, quern_span span) { spans_[{value, device}] = span; }

void Program::share(graph::ValueId value, Program& owner, graph::ValueId owners_value) {
  expect_shared(value);
  for (const std::uint32_t d : readers(value)) {
    const auto other = std::ranges::find(owner.devices_, devices_[d]);
    assert(other != owner.devices_.end());
    const auto index = static_cast<std::uint32_t>(other - owner.devices_.begin());
    spans_[{value, d}] = owner.span_of(owners_value, index);
    owners_[{value, d}] = owner.owners_.at({owners_value, index});
    queues_[d] = owner.queues_[index];
  }
}

const quern_span& Program::span_of(graph::ValueId value, std::uint32_t device) const {
  const auto found = spans_.find({value, device});
  if (found == spans_.end()) {
    throw Error(QUERN_INTERNAL, concat("value '", graph_.value(value).name, "' has no memory on ", devices_[device]->device()->label()));
  }
  return found->second;
}

ProgramNeeds Program::needs() const {
  ProgramNeeds all;
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    const ProgramNeeds one = needs(d);
    all.state += one.state;
    all.io += one.io;
    all.scratch += one.scratch;
    all.plans += one.plans;
  }
  return all;
}

ProgramNeeds Program::needs(std::uint32_t device) const {
  ProgramNeeds needs;
  std::map<graph::ValueId, bool> counted;
  for (const Part& part : parts_) {
    if (part.device != device) continue;
    needs.scratch = std::max(needs.scratch, part.plan->scratch_bytes());
    needs.plans += part.plan->private_bytes();
    needs.io += ahead_.followers * ahead_.own.size() * follower_stride();
    for (std::uint32_t id = 0; id < part.whole.size(); ++id) {
      const graph::Value& value = part.graph.value(id);
      if (value.alias_of != graph::no_value || value.kind == QUERN_VALUE_INTERNAL || value.kind == QUERN_VALUE_CONSTANT) continue;
      if (shared_.contains(part.whole[id]) || std::exchange(counted[part.whole[id]], true)) continue;
      (value.kind == QUERN_VALUE_STATE ? needs.state : needs.io) += graph::byte_size(value.dtype, value.shape);
    }
  }
  return needs;
}

void Program::prepare() {
  std::uint64_t of_host = 0;  // by the devices that share its memory
  const MemoryBudget* host = nullptr;
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    if (!shares_host_memory(*devices_[d])) continue;
    of_host += needs(d).total();
    host = devices_[d].get();
  }
  if (host != nullptr) require_room(*host, of_host, concat("all of '", graph_.name(), "'").c_str());
  for (std::uint32_t d = 0; d < devices_.size(); ++d)
    if (queues_[d] == nullptr) queues_[d] = std::make_shared<DeviceQueue>(devices_[d]->device());
  for (Part& part : parts_) {
    MemoryBudget& budget = *devices_[part.device];
    for (std::uint32_t id = 0; id < part.whole.size(); ++id) {
      const graph::Value& value = part.graph.value(id);
      if (value.alias_of != graph::no_value || value.kind == QUERN_VALUE_INTERNAL) continue;
      const Place place{part.whole[id], part.device};
      if (spans_.contains(place)) continue;
      if (value.kind == QUERN_VALUE_CONSTANT) { throw Error(QUERN_INTERNAL, concat("constant '", value.name, "' is not bound")); }
      const std::uint64_t bytes = graph::byte_size(value.dtype, value.shape);
      const bool state = value.kind == QUERN_VALUE_STATE;
      auto memory = std::make_unique<Memory>(budget.allocate(std::max<std::uint64_t>(bytes, 1),
                                                             state ? QUERN_USAGE_STATE : QUERN_USAGE_STAGING, value.name.c_str()));
      if (state && !budget.host_memory()) memory->fill_zero();  // host memory comes as zero pages
      (state ? state_bytes_ : io_bytes_) += bytes;
      spans_[place] = memory->span(0, bytes);
      owners_[place] = memory.get();
      memory_.push_back(std::move(memory));
    }
  }
  std::map<std::uint32_t, std::uint64_t> scratch;  // parts of a device run one after another
  for (const Part& part : parts_) scratch[part.device] = std::max(scratch[part.device], part.plan->scratch_bytes());
  std::map<std::uint32_t, quern_span> scratch_spans;
  for (const auto& [device, bytes] : scratch) {
    auto memory = std::make_unique<Memory>(devices_[device]->allocate(bytes, QUERN_USAGE_SCRATCH, "scratch"));
    scratch_bytes_ += bytes;
    scratch_spans[device] = memory->span();
    memory_.push_back(std::move(memory));
  }
  for (Part& part : parts_) {
    memory_.push_back(std::make_unique<Memory>(devices_[part.device]->reserve(part.plan->private_bytes(), "what a plan keeps for itself")));
    scratch_bytes_ += part.plan->private_bytes();
    std::vector<SlotBinding> bindings;
    for (std::uint32_t id = 0; id < part.whole.size(); ++id) {
      const graph::Value& value = part.graph.value(id);
      if (value.alias_of != graph::no_value || value.kind == QUERN_VALUE_INTERNAL) continue;
      bindings.push_back({id, span_of(part.whole[id], part.device)});
    }
    part.plan->prepare(queue_of(part), 0, bindings, scratch_spans[part.device]);
    prepare_followers(std::move(bindings), scratch_spans[part.device]);
    queue_of(part).wait();
  }
  std::uint64_t largest = 0;
  for (const Transfer& t : transfers_) {
    const graph::Value& value = graph_.value(t.value);
    largest = std::max(largest, graph::byte_size(value.dtype, value.shape));
  }
  staging_.resize(largest);
}

/// From one of a follower's own values to the next, each of which has some bytes for its one row.
std::uint64_t Program::follower_stride() const {
  return ahead_.followers == 0 ? 0 : std::max<std::uint64_t>(256, devices_[parts_[0].device]->device()->info().memory_alignment);
}

std::uint64_t Program::follower_offset(graph::ValueId value) const {
  const auto at = std::ranges::find(ahead_.own, value);
  assert(at != ahead_.own.end());
  return static_cast<std::uint64_t>(at - ahead_.own.begin()) * follower_stride();
}

/// What followers do not have for themselves they share with the first instance: `bindings`. Where they go on, the last one draws to where the
/// first instance does, which the first follower reads.
void Program::prepare_followers(std::vector<SlotBinding> bindings, quern_span scratch) {
  if (ahead_.followers == 0) return;
  Part& part = parts_[0];
  const auto binding_of = [&](graph::ValueId whole) -> quern_span& {
    return std::ranges::find_if(bindings, [&](const SlotBinding& b) { return part.whole[b.value] == whole; })->span;
  };
  for (std::uint32_t f = 0; f < ahead_.followers; ++f) {
    const std::uint64_t bytes = ahead_.own.size() * follower_stride();
    Memory& memory =
        follower_memory_.emplace_back(devices_[part.device]->allocate(bytes, QUERN_USAGE_STAGING, "what a step ahead has for itself"));
    io_bytes_ += bytes;
    binding_of(ahead_.token) = binding_of(ahead_.drawn);  // of the run before
    for (const graph::ValueId value : ahead_.own) binding_of(value) = memory.span(follower_offset(value), follower_stride());
    if (f + 1 == ahead_.followers && followers_go_on()) binding_of(ahead_.drawn) = span_of(ahead_.drawn, part.device);
    part.plan->prepare(queue_of(part), f + 1, bindings, scratch);
  }
  follower_points_.resize(ahead_.followers);
}

Program::FollowerPlace Program::follower_place(std::uint32_t follower, graph::ValueId value) {
  if (value == ahead_.drawn && follower + 1 == ahead_.followers && followers_go_on()) return {*owners_.at({value, parts_[0].device}), 0};
  return {follower_memory_.at(follower), follower_offset(value)};
}

void Program::write_follower(std::uint32_t follower, graph::ValueId value, std::span<const std::byte> bytes) {
  const FollowerPlace place = follower_place(follower, value);
  place.memory.write(queue_of(parts_[0]), place.offset, bytes);
}

void Program::write(graph::ValueId value, std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    const auto memory = owners_.find({value, d});
    if (memory != owners_.end()) memory->second->write(*queues_[d], offset, bytes);
  }
}

/// A device that has the value.
std::uint32_t Program::holder(graph::ValueId value) const {
  const auto first = owners_.lower_bound({value, 0});
  if (first != owners_.end() && first->first.first == value) return first->first.second;
  throw Error(QUERN_INTERNAL, concat("value '", graph_.value(value).name, "' has no memory to read"));
}

void Program::read(graph::ValueId value, std::uint64_t offset, std::span<std::byte> bytes) const {
  fetch(value, offset, bytes);
  queues_[holder(value)]->wait();
}

void Program::copy_within(graph::ValueId value, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    const auto memory = owners_.find({value, d});
    if (memory != owners_.end()) memory->second->copy_within(*queues_[d], to, from, bytes);
  }
}

std::byte* Program::host(graph::ValueId value) const {
  for (std::uint32_t d = 0; d < devices_.size(); ++d) {
    const auto memory = owners_.find({value, d});
    if (memory != owners_.end() && memory->second->host() != nullptr) return memory->second->host();
  }
  return nullptr;
}

std::uint64_t Program::bound_bytes(graph::ValueId id, const std::vector<RunBound>& bounds) const {
  const graph::Value& value = graph_.value(id);
  std::uint64_t rows = 1;
  for (const graph::Dim& d : value.shape) {
    if (d.symbol == 0) continue;
    const auto bound = std::ranges::find(bounds, d.symbol, &RunBound::symbol);
    rows *= static_cast<std::uint64_t>(bound == bounds.end() ? d.size : bound->upper);
  }
  return rows * bytes_per_row(value);
}

void Program::copy(const Transfer& t, std::uint64_t bytes) {
  const double start = trace_ == nullptr ? 0 : trace_->now();
  Memory& from = *owners_.at({t.value, t.from});
  Memory& to = *owners_.at({t.value, t.to});
  const std::span<std::byte> stage = from.host() != nullptr ? std::span(from.host(), bytes) : std::span(staging_.data(), bytes);
  if (from.host() == nullptr) from.read(*queues_[t.from], 0, stage);
  finish(t.from);
  to.write(*queues_[t.to], 0, stage);
  bytes_moved_ += bytes;
  if (trace_ != nullptr)
    trace_->add(concat("copy '", graph_.value(t.value).name, "' from ", devices_[t.from]->device()->label()), t.to + 1, start,
                {{"bytes", bytes}});
}

/// One submit. A run that is recorded is waited for, so that its time is the device's.
template <typename Submit>
void Program::submit(Part& part, const Submit& submit) {
  if (cancelled_) throw Error(QUERN_CANCELLED, "cancelled");
  if (trace_ == nullptr) return submit();
  const double start = trace_->now();
  const quern_counters before = part.plan->counters();
  submit();
  queue_of(part).wait();
  const quern_counters after = part.plan->counters();
  trace_->add(concat("run '", graph_.name(), "'"), part.device + 1, start,
              {{"nodes", part.nodes},
               {"submits", 1},
               {"runs", after.runs - before.runs},
               {"recorded_anew", after.rerecords - before.rerecords},
               {"device_allocations", after.device_allocations - before.device_allocations},
               {"host_allocations", after.host_allocations - before.host_allocations},
               {"compiles", after.compiles - before.compiles},
               {"bytes_between_host_and_device", after.host_copies - before.host_copies}});
}

/// Waits for a device, and throws what its parts failed with.
void Program::finish(std::uint32_t device) {
  queues_[device]->wait();
  for (Part& part : parts_)
    if (part.device == device && std::exchange(part.in_flight, false)) part.plan->check(0, 1);
}

/// `to` is filled when the queue of its device was waited for.
void Program::fetch(graph::ValueId value, std::uint64_t offset, std::span<std::byte> to) const {
  const std::uint32_t device = holder(value);
  owners_.at({value, device})->read(*queues_[device], offset, to);
}

void Program::fetch_follower(std::uint32_t follower, const Results& results) {
  for (const Result& result : results) {
    const FollowerPlace place = follower_place(follower, result.value);
    place.memory.read(queue_of(parts_[0]), place.offset, result.to);
  }
}

void Program::start_follower(std::uint32_t follower, const Results& results) {
  Part& part = parts_[0];
  submit(part, [&] { part.plan->submit_follower(queue_of(part), follower); });
  fetch_follower(follower, results);
  follower_points_.at(follower) = queue_of(part).last();
}

void Program::wait_for(std::uint32_t follower) {
  queue_of(parts_[0]).wait(follower_points_.at(follower));
  parts_[0].plan->check(follower + 1, 1);
}

void Program::run(const std::vector<RunBound>& bounds, const Results& results, std::span<const Results> followers) {
  const auto count = static_cast<std::uint32_t>(followers.size());
  settle();
  try {
    for (Part& part : parts_) {
      for (const std::size_t index : part.copies_in) copy(transfers_[index], bound_bytes(transfers_[index].value, bounds));
      const bool synchronous = queue_of(part).synchronous();
      const std::uint32_t behind = synchronous ? count : 0;  // in the same submit
      submit(part, [&] { part.plan->submit(queue_of(part), bounds, behind); });
      if (synchronous) part.plan->check(0, behind + 1);
      else part.in_flight = true;
    }
    for (const Result& result : results) fetch(result.value, 0, result.to);
    if (count == 0) {
      for (std::uint32_t d = 0; d < devices_.size(); ++d) finish(d);
      return;
    }
    const std::uint64_t first = queue_of(parts_[0]).last();  // a program with followers has one part
    for (std::uint32_t f = 0; f < count; ++f) {
      if (followers_go_on()) start_follower(f, followers[f]);
      else fetch_follower(f, followers[f]);
    }
    queue_of(parts_[0]).wait(first);
    if (std::exchange(parts_[0].in_flight, false)) parts_[0].plan->check(0, 1);
  } catch (...) {
    give_up();
    if (count == 0) settle();  // that is one step; its caller may free what it names
    throw;
  }
}

void Program::give_up() noexcept {
  for (const std::shared_ptr<DeviceQueue>& queue : queues_)
    if (queue != nullptr) queue->forget_results();
  for (Part& part : parts_) part.in_flight = false;
  given_up_ = true;
}

void Program::drain() noexcept {
  for (const std::shared_ptr<DeviceQueue>& queue : queues_)
    if (queue != nullptr) queue->drain();
}

void Program::settle() noexcept {
  if (std::exchange(given_up_, false)) drain();
}

std::vector<NodePlace> Program::node_places() const {
  std::vector<NodePlace> places;
  for (const Part& part : parts_)
    for (const graph::Node& node : part.graph.nodes()) places.push_back({node.name, graph::op_name(node.op), part.device});
  return places;
}

std::vector<KernelPlace> Program::kernel_places() const {
  std::vector<KernelPlace> places;
  for (const Part& part : parts_)
    for (const KernelUse& kernel : part.plan->kernels())
      places.push_back({kernel.name, kernel.first_node < part.nodes ? part.graph.nodes()[kernel.first_node].name : "", part.device,
                        kernel.nodes});
  return places;
}

std::vector<Program::ToldPart> Program::told_parts() const {
  std::vector<ToldPart> told;
  for (const Part& part : parts_) told.push_back({part.device, &part.graph, part.plan->schedules()});
  return told;
}

void Program::clear_cancel() noexcept {
  settle();
  cancelled_ = false;
  expect_end(false);
}

void Program::expect_end(bool cancelled) noexcept {
  for (const std::shared_ptr<DeviceQueue>& queue : queues_)
    if (queue != nullptr) queue->expect_end(cancelled);
}

void Program::cancel() noexcept {
  cancelled_ = true;
  expect_end(true);
  for (Part& part : parts_) part.plan->cancel();
}

std::vector<DeviceShare> Program::shares() const {
  std::vector<DeviceShare> result(devices_.size());
  for (std::uint32_t d = 0; d < devices_.size(); ++d) result[d].device = devices_[d]->device()->label();
  for (const Part& part : parts_) {
    DeviceShare& share = result[part.device];
    share.nodes += part.nodes;
    for (const KernelUse& kernel : part.plan->kernels()) {
      const auto known = std::ranges::find(share.kernels, kernel.name, &KernelUse::name);
      if (known == share.kernels.end()) {
        share.kernels.push_back(kernel);
      } else {
        known->nodes += kernel.nodes;
      }
    }
  }
  return result;
}

}  // namespace quern::runtime
