// See prepared.hpp.
#include "device_run/prepared.hpp"

#include <vector>

namespace quern::conformance {
namespace {

std::string copied(quern_string s) { return s.data == nullptr ? std::string() : std::string(s.data, s.size); }

/// Valid as long as `from`.
quern_compile_options compile_options(const PlanOptions& from) {
  quern_compile_options options{};
  options.header = {sizeof options, QUERN_TYPE_COMPILE_OPTIONS, nullptr};
  options.effort = 1;
  options.fusion = from.fusion ? 1 : 0;
  options.force_kernel = {from.force_kernel.data(), from.force_kernel.size()};
  return options;
}

PlanFacts facts_of(const loader::Device& device, quern_plan* plan) {
  PlanFacts facts;
  if (device.api().plan_info == nullptr) return facts;
  quern_plan_info info{};
  info.header = {sizeof info, QUERN_TYPE_PLAN_INFO, nullptr};
  AbiError error;
  error.check(device.api().plan_info(plan, &info, error.get()), "plan_info");
  facts.told = true;
  facts.determinism = info.determinism;
  facts.numerics_key = info.numerics_key;
  for (std::uint64_t k = 0; k < info.kernels.count; ++k) {
    const auto* kernel =
        reinterpret_cast<const quern_kernel_info*>(static_cast<const std::byte*>(info.kernels.data) + k * info.kernels.stride);
    facts.kernels.push_back(copied(kernel->name));
  }
  return facts;
}

}  // namespace

std::vector<SupportAnswer> support_of_nodes(const loader::Device& device, const quern_graph* graph) {
  quern_support_options options{};
  options.header = {sizeof options, QUERN_TYPE_SUPPORT_OPTIONS, nullptr};
  std::vector<quern_answer> answers(graph->nodes.count);
  for (quern_answer& a : answers) a.header = {sizeof a, QUERN_TYPE_ANSWER, nullptr};
  AbiError error;
  error.check(device.api().support(device.handle(), graph, &options, answers.data(), error.get()), "support");
  std::vector<SupportAnswer> result;
  for (const quern_answer& a : answers) {
    result.push_back({a.verdict, copied(a.text), false});
    for (std::uint64_t r = 0; r < a.requirements.count; ++r) {
      const auto* requirement =
          reinterpret_cast<const quern_requirement*>(static_cast<const std::byte*>(a.requirements.data) + r * a.requirements.stride);
      result.back().needs_other_than_values |= requirement->kind != QUERN_REQUIRE_CONST_VALUES;
    }
  }
  return result;
}

SupportAnswer support_of(const loader::Device& device, const quern_graph* graph) { return support_of_nodes(device, graph).front(); }

quern_status Prepared::try_compile(const loader::Device& device, const quern_graph* graph, const PlanOptions& from) {
  quern_compile_options options = compile_options(from);
  quern_plan* plan = nullptr;
  const quern_status status = device.api().compile(device.handle(), graph, &options, &plan, nullptr);
  if (status == QUERN_OK && plan != nullptr) device.api().plan_destroy(plan, nullptr);
  return status;
}

std::optional<PlanFacts> Prepared::plan_of(const loader::Device& device, const quern_graph* graph, const PlanOptions& from) {
  quern_compile_options options = compile_options(from);
  quern_plan* plan = nullptr;
  if (device.api().compile(device.handle(), graph, &options, &plan, nullptr) != QUERN_OK || plan == nullptr) return std::nullopt;
  PlanFacts facts = facts_of(device, plan);
  device.api().plan_destroy(plan, nullptr);
  return facts;
}

std::string Prepared::refusal(const loader::Device& device, const quern_graph* graph, const PlanOptions& from) {
  quern_compile_options options = compile_options(from);
  quern_plan* plan = nullptr;
  AbiError error;
  const quern_status status = device.api().compile(device.handle(), graph, &options, &plan, error.get());
  if (status != QUERN_OK) return error.text().empty() ? "no reason given" : error.text();
  if (plan != nullptr) device.api().plan_destroy(plan, nullptr);
  return {};
}

Prepared::Prepared(const loader::Device& device, Queue& queue, const quern_graph* graph, const std::map<std::uint32_t, Region*>& bindings,
                   const PlanOptions& from)
    : device_(device), queue_(queue) {
  try {
    AbiError error;
    quern_compile_options options = compile_options(from);
    error.check(device.api().compile(device.handle(), graph, &options, &plan_, error.get()), "compile");
    facts_ = facts_of(device, plan_);
    for (const std::string& name : facts_.kernels) kernels_ += (kernels_.empty() ? "" : "+") + name;
    bind(bindings, from.bounds);
  } catch (...) {
    release();
    throw;
  }
}

void Prepared::bind(const std::map<std::uint32_t, Region*>& bindings, const std::vector<quern_bound>& bounds) {
  AbiError error;
  quern_instance_options options{};
  options.header = {sizeof options, QUERN_TYPE_INSTANCE_OPTIONS, nullptr};
  options.queue_kind = QUERN_QUEUE_COMPUTE;
  options.max_in_flight = 1;
  options.bounds = {bounds.data(), bounds.size(), sizeof(quern_bound)};
  quern_instance_info info{};
  info.header = {sizeof info, QUERN_TYPE_INSTANCE_INFO, nullptr};
  error.check(device_.api().instance_create(plan_, &options, &instance_, &info, error.get()), "instance_create");
  scratch_ = std::make_unique<Region>(device_, queue_, info.scratch_bytes, info.scratch_alignment, false);

  std::vector<quern_span> spans;
  std::vector<quern_binding> list;
  spans.reserve(bindings.size());
  for (const auto& [id, region] : bindings) {
    spans.push_back(region->span());
    list.push_back({{sizeof(quern_binding), QUERN_TYPE_BINDING, nullptr}, id, 0, {&spans.back(), 1, sizeof(quern_span)}});
  }
  quern_prepare_entry entry{};
  entry.header = {sizeof entry, QUERN_TYPE_PREPARE_ENTRY, nullptr};
  entry.instance = instance_;
  entry.bindings = {list.data(), list.size(), sizeof(quern_binding)};
  entry.scratch = scratch_->span();
  const quern_array entries{&entry, 1, sizeof entry};
  enqueue(queue_, "prepare", [&](const quern_sync* sync, quern_error* to) {
    return device_.api().prepare(device_.handle(), queue_.get(), &entries, sync, to);
  });
  queue_.wait(60);
}

Prepared::~Prepared() { release(); }

void Prepared::release() noexcept {
  if (instance_ != nullptr) device_.api().instance_destroy(instance_, nullptr);
  if (plan_ != nullptr) device_.api().plan_destroy(plan_, nullptr);
  instance_ = nullptr;
  plan_ = nullptr;
}

void Prepared::poison_scratch(std::byte value) { scratch_->fill(value); }

quern_run_status Prepared::run(double seconds, const std::vector<quern_patch>& patches, const std::vector<quern_bound>& bounds) {
  quern_run_status status{};
  status.header = {sizeof status, QUERN_TYPE_RUN_STATUS, nullptr};
  status.node = QUERN_NONE;
  quern_run run{};
  run.header = {sizeof run, QUERN_TYPE_RUN, nullptr};
  run.instance = instance_;
  run.status = &status;
  run.patches = {patches.data(), patches.size(), sizeof(quern_patch)};
  run.bounds = {bounds.data(), bounds.size(), sizeof(quern_bound)};
  const quern_array runs{&run, 1, sizeof run};
  enqueue(queue_, "submit", [&](const quern_sync* sync, quern_error* error) {
    run.sync = sync;
    return device_.api().submit(device_.handle(), queue_.get(), &runs, error);
  });
  queue_.wait(seconds);
  return status;
}

}  // namespace quern::conformance
