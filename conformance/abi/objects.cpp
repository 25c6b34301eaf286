// See objects.hpp.
#include "abi/objects.hpp"
#include "device_run/status_words.hpp"

#include <algorithm>

namespace quern::conformance::abi {
namespace {

std::string copied(quern_string s) { return s.data == nullptr ? std::string() : std::string(s.data, s.size); }

}  // namespace

OwnDevice::OwnDevice(ScriptContext& t, TestHost& host, std::uint32_t index)
    : api_(t.api()), info_(made<quern_device_info>(QUERN_TYPE_DEVICE_INFO)) {
  AbiError error;
  error.check(api_.create(host.table(), &plugin_, error.get()), "create");
  try {
    error.check(api_.device_info(plugin_, index, &info_, error.get()), "device_info");
    error.check(api_.device_open(plugin_, index, &device_, error.get()), "device_open");
  } catch (...) {
    api_.destroy(plugin_);
    throw;
  }
}

OwnDevice::~OwnDevice() {
  if (device_ != nullptr) api_.device_close(device_, nullptr);
  if (plugin_ != nullptr) api_.destroy(plugin_);
}

DeviceRef OwnDevice::ref() const { return {api_, plugin_, device_, info_}; }

quern_compile_options compile_options() {
  quern_compile_options options = made<quern_compile_options>(QUERN_TYPE_COMPILE_OPTIONS);
  options.effort = 1;
  options.fusion = 1;
  return options;
}

Plan::Plan(DeviceRef device, const quern_graph* graph, quern_compile_options options) : device_(device) {
  AbiError error;
  error.check(device.api().compile(device.handle(), graph, &options, &plan_, error.get()), "compile");
}
Plan::~Plan() {
  if (plan_ != nullptr) device_.api().plan_destroy(plan_, nullptr);
}

quern_plan_info Plan::info() const {
  quern_plan_info info = made<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
  AbiError error;
  error.check(device_.api().plan_info(plan_, &info, error.get()), "plan_info");
  return info;
}

Instance::Instance(DeviceRef device, const Plan& plan, std::vector<quern_bound> bounds, std::uint32_t max_in_flight)
    : device_(device), info_(made<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO)) {
  quern_instance_options options = made<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS);
  options.bounds = array_of(bounds);
  options.queue_kind = QUERN_QUEUE_COMPUTE;
  options.max_in_flight = max_in_flight;
  AbiError error;
  error.check(device.api().instance_create(plan.get(), &options, &instance_, &info_, error.get()), "instance_create");
}
Instance::~Instance() {
  if (instance_ != nullptr) device_.api().instance_destroy(instance_, nullptr);
}

quern_counters Instance::counters() const {
  quern_counters counters = made<quern_counters>(QUERN_TYPE_COUNTERS);
  AbiError error;
  error.check(device_.api().counters(instance_, &counters, error.get()), "counters");
  return counters;
}

quern_status prepare(DeviceRef device, Queue& queue, quern_instance* instance, const Spans& spans, quern_span scratch, AbiError& error) {
  std::vector<quern_binding> bindings;
  for (const auto& [value, span] : spans) {
    quern_binding binding = made<quern_binding>(QUERN_TYPE_BINDING);
    binding.value = value;
    binding.spans = {&span, 1, sizeof span};
    bindings.push_back(binding);
  }
  quern_prepare_entry entry = made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
  entry.instance = instance;
  entry.bindings = array_of(bindings);
  entry.scratch = scratch;
  const quern_array entries{&entry, 1, sizeof entry};
  const quern_status status = device.api().prepare(device.handle(), queue.get(), &entries, queue.next_signal(), error.get());
  if (status == QUERN_OK) queue.wait(60);
  else queue.withdraw_signal();
  return status;
}

Ready::Ready(DeviceRef device, Queue& queue, const Plan& plan, const Spans& spans, std::vector<quern_bound> bounds)
    : device_(device), queue_(queue), instance_(device, plan, std::move(bounds)) {
  scratch_ = std::make_unique<Region>(device, queue, instance_.info().scratch_bytes, instance_.info().scratch_alignment, false);
  AbiError error;
  error.check(prepare(device, queue, instance_.get(), spans, scratch_->span(), error), "prepare");
}

quern_run Ready::run() const {
  quern_run run = made<quern_run>(QUERN_TYPE_RUN);
  run.instance = instance_.get();
  return run;
}

quern_status Ready::submit(quern_run run, AbiError& error) {
  run.sync = queue_.next_signal();
  const quern_array runs{&run, 1, sizeof run};
  const quern_status status = device_.api().submit(device_.handle(), queue_.get(), &runs, error.get());
  if (status == QUERN_OK) queue_.wait(60);
  else queue_.withdraw_signal();
  return status;
}

quern_run_status Ready::go(const std::vector<quern_patch>& patches, const std::vector<quern_bound>& bounds) {
  quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  quern_run one = run();
  one.patches = array_of(patches);
  one.bounds = array_of(bounds);
  one.status = &status;
  AbiError error;
  error.check(submit(one, error), "submit");
  return status;
}

std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

std::vector<Answer> ask(DeviceRef device, const quern_graph* graph) {
  std::vector<quern_answer> answers(graph->nodes.count, made<quern_answer>(QUERN_TYPE_ANSWER));
  AbiError error;
  error.check(device.api().support(device.handle(), graph, nullptr, answers.data(), error.get()), "support");
  std::vector<Answer> result;
  for (const quern_answer& a : answers) result.push_back({a.verdict, a.code, copied(a.text), copied(a.kernel)});
  return result;
}

void check_no(ScriptContext& t, Graph& graph, const std::string& claim) {
  const DeviceRef device = t.device();
  const quern_graph* g = graph.get();
  std::vector<quern_answer> answers(graph.nodes.size(), made<quern_answer>(QUERN_TYPE_ANSWER));
  AbiError error;
  const quern_status asked = device.api().support(device.handle(), g, nullptr, answers.data(), error.get());
  t.check(asked == QUERN_OK, claim + ": support itself answers OK, found " + status_words(asked) + " " + error.text());
  if (asked == QUERN_OK) {
    t.check(answers[0].verdict == QUERN_ANSWER_NO, claim + ": is answered no");
    t.check(answers[0].verdict != QUERN_ANSWER_NO || (answers[0].code != QUERN_OK && answers[0].text.size != 0),
            claim + ": the no has a code and a text");
  }
  quern_compile_options options = compile_options();
  quern_plan* plan = nullptr;
  const quern_status status = device.api().compile(device.handle(), g, &options, &plan, error.get());
  check_refused(t, status, error, {QUERN_UNSUPPORTED, QUERN_INVALID_ARGUMENT}, claim + ": compile refuses it");
  if (status == QUERN_OK && plan != nullptr) device.api().plan_destroy(plan, nullptr);
}

void check_refused(ScriptContext& t, quern_status found, const AbiError& error, std::initializer_list<quern_status> allowed,
                   const std::string& claim) {
  const bool right = std::ranges::find(allowed, found) != allowed.end();
  t.check(right, claim + ": expected " + status_words(allowed) + ", found " + status_words(found));
  if (right) t.check(!error.text().empty(), claim + ": the refusal has a text");
}

}  // namespace quern::conformance::abi
