// See plan.hpp.
#include "plan.hpp"

#include "abi_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace quern::runtime {
namespace {

template <typename T>
quern_header header_of(std::uint32_t type) {
  return {sizeof(T), type, nullptr};
}

/// Elements of a strided list that a plugin returned.
template <typename T>
const T& element(const quern_array& list, std::uint64_t i) {
  return *reinterpret_cast<const T*>(static_cast<const std::byte*>(list.data) + i * list.stride);
}

}  // namespace

std::vector<NodeAnswer> ask_support(const loader::Device& device, const graph::Graph& graph) {
  const graph::GraphView view = graph.view_for_plugin();
  std::vector<quern_answer> answers(graph.nodes().size());
  for (quern_answer& a : answers) a.header = header_of<quern_answer>(QUERN_TYPE_ANSWER);
  quern_support_options options{};
  options.header = header_of<quern_support_options>(QUERN_TYPE_SUPPORT_OPTIONS);
  AbiError error;
  error.check(device.call<&quern_plugin_api::support>(device.handle(), view.get(), &options, answers.data(), error.out()),
              concat(device.label(), ": asking for support of '", graph.name(), "'"));

  std::vector<NodeAnswer> result(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const quern_answer& a = answers[i];
    result[i].text = from_abi(a.text);
    result[i].kernel = from_abi(a.kernel);
    switch (a.verdict) {
      case QUERN_ANSWER_YES: result[i].yes = true; break;
      case QUERN_ANSWER_NO: break;
      case QUERN_ANSWER_YES_IN_GROUP:
        // A group is taken whole or not at all; placement has no groups, so only a group of all its neighbours would do.
        result[i].text = "offered only together with other nodes, which this runtime does not place as groups";
        break;
      default: result[i].text = concat("offered under a requirement (verdict ", a.verdict, ") that this runtime cannot meet"); break;
    }
    if (!result[i].yes && result[i].text.empty()) result[i].text = "the plugin gave no reason";
  }
  return result;
}

Plan::Plan(std::shared_ptr<loader::Device> device, const graph::Graph& graph, const std::string& force_kernel, std::uint32_t followers,
           const std::vector<RunBound>& follower_bounds)
    : device_(std::move(device)), graph_name_(graph.name()), running_(concat("running '", graph_name_, "'")) {
  const graph::GraphView view = graph.view_for_plugin();
  for (const graph::Node& node : graph.nodes()) node_names_.push_back(node.name);

  quern_compile_options options{};
  options.header = header_of<quern_compile_options>(QUERN_TYPE_COMPILE_OPTIONS);
  options.effort = 1;
  options.fusion = 1;
  options.force_kernel = to_abi(force_kernel);
  AbiError error;
  error.check(device_->call<&quern_plugin_api::compile>(device_->handle(), view.get(), &options, &plan_, error.out()),
              concat(device_->label(), ": compiling '", graph_name_, "'"));

  try {
    read_kernels();
    bounds_.reserve(graph.symbols().size());
    for (const RunBound& b : follower_bounds) follower_bounds_.push_back({b.symbol - 1, 0, b.upper});
    instances_.reserve(std::size_t{followers} + 1);
    make_instance({});
    for (std::uint32_t f = 0; f < followers; ++f) make_instance(follower_bounds);
  } catch (...) {  // a constructor that throws has no destructor
    destroy();
    throw;
  }
}

void Plan::read_kernels() {
  AbiError error;
  if (device_->api().plan_info != nullptr) {
    quern_plan_info info{};
    info.header = header_of<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
    if (device_->call<&quern_plugin_api::plan_info>(plan_, &info, error.out()) == QUERN_OK) {
      for (std::uint64_t i = 0; i < info.kernels.count; ++i) {
        const auto& kernel = element<quern_kernel_info>(info.kernels, i);
        kernels_.push_back({from_abi(kernel.name), from_abi(kernel.reason), kernel.node_count, kernel.node});
      }
    }
  }
}

std::vector<ScheduleUse> Plan::schedules() const {
  std::vector<ScheduleUse> result;
  if (device_->api().plan_info == nullptr) return result;
  AbiError error;
  quern_plan_info info{};
  info.header = header_of<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
  error.check(device_->call<&quern_plugin_api::plan_info>(plan_, &info, error.out()),
              concat(device_->label(), ": asking for the schedules of '", graph_name_, "'"));
  for (std::uint64_t s = 0; s < info.schedules.count; ++s) {
    const auto& given = element<quern_schedule_info>(info.schedules, s);
    ScheduleUse schedule{given.symbol, given.rows, given.least, given.most, {}, {}};
    for (std::uint64_t i = 0; i < given.kernels.count; ++i) {
      const auto& kernel = element<quern_kernel_info>(given.kernels, i);
      schedule.kernels.push_back({from_abi(kernel.name), from_abi(kernel.reason), kernel.node_count, kernel.node});
    }
    for (std::uint64_t i = 0; i < given.alone.count; ++i) {
      const auto& alone = element<quern_alone_info>(given.alone, i);
      schedule.alone.push_back({alone.node, (alone.flags & QUERN_ALONE_COMPLETE) != 0, from_abi(alone.rule), from_abi(alone.reason)});
    }
    result.push_back(std::move(schedule));
  }
  return result;
}

void Plan::make_instance(const std::vector<RunBound>& bounds) {
  std::vector<quern_bound> upper;
  for (const RunBound& b : bounds) upper.push_back({b.symbol - 1, 0, b.upper});
  AbiError error;
  quern_instance_options instance_options{};
  instance_options.header = header_of<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS);
  instance_options.bounds = {upper.data(), upper.size(), sizeof(quern_bound)};
  instance_options.queue_kind = QUERN_QUEUE_COMPUTE;
  instance_options.max_in_flight = 1;
  quern_instance_info info{};
  info.header = header_of<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
  quern_instance* instance = nullptr;
  error.check(device_->call<&quern_plugin_api::instance_create>(plan_, &instance_options, &instance, &info, error.out()),
              concat(device_->label(), ": making an instance of '", graph_name_, "'"));
  instances_.push_back(instance);
  scratch_bytes_ = std::max(scratch_bytes_, info.scratch_bytes);
  private_bytes_ += info.private_bytes;
}

void Plan::destroy() noexcept {
  Kept::release(std::move(statuses_), *device_);
  if (device_->lost()) return;
  for (quern_instance* instance : instances_) device_->call<&quern_plugin_api::instance_destroy>(instance, nullptr);
  if (plan_ != nullptr) device_->call<&quern_plugin_api::plan_destroy>(plan_, nullptr);
}

Plan::~Plan() { destroy(); }

void Plan::prepare(DeviceQueue& queue, std::uint32_t instance, const std::vector<SlotBinding>& bindings, quern_span scratch) {
  std::vector<quern_binding> list(bindings.size());
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    list[i].header = header_of<quern_binding>(QUERN_TYPE_BINDING);
    list[i].value = bindings[i].value;
    list[i].spans = {&bindings[i].span, 1, sizeof(quern_span)};
  }
  quern_prepare_entry entry{};
  entry.header = header_of<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
  entry.instance = instances_.at(instance);
  entry.bindings = {list.data(), list.size(), sizeof(quern_binding)};
  entry.scratch = scratch;
  queue.prepare({&entry, 1, sizeof(entry)}, concat("preparing '", graph_name_, "'"));
}

void Plan::submit_instances(DeviceQueue& queue, std::uint32_t first, std::uint32_t count) {
  std::array<quern_run, most_followers + 1> runs{};
  for (std::uint32_t i = 0; i < count; ++i) {
    quern_run_status& status = statuses_->of_instance.at(first + i) = {};
    status.header = header_of<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    status.node = QUERN_NONE;
    std::vector<quern_bound>& upper = first + i == 0 ? bounds_ : follower_bounds_;
    runs[i].header = header_of<quern_run>(QUERN_TYPE_RUN);
    runs[i].instance = instances_.at(first + i);
    runs[i].bounds = {upper.data(), upper.size(), sizeof(quern_bound)};
    runs[i].status = &status;
  }
  queue.submit(std::span(runs).first(count), running_, error_);
}

void Plan::submit(DeviceQueue& queue, const std::vector<RunBound>& bounds, std::uint32_t followers) {
  bounds_.clear();
  for (const RunBound& b : bounds) bounds_.push_back({b.symbol - 1, 0, b.upper});
  submit_instances(queue, 0, followers + 1);
}

void Plan::submit_follower(DeviceQueue& queue, std::uint32_t follower) { submit_instances(queue, follower + 1, 1); }

void Plan::check(std::uint32_t first, std::uint32_t count) const {
  const auto ended = std::span(statuses_->of_instance).subspan(first, count);
  const auto failed = std::ranges::find_if(ended, [](const quern_run_status& s) { return s.code != QUERN_OK; });
  if (failed == ended.end()) return;
  const std::string where = failed->node < node_names_.size() ? concat(" at '", node_names_[failed->node], "'") : "";
  error_.check(failed->code, concat(device_->label(), ": ", running_, where));
}

void Plan::cancel() noexcept {
  if (device_->api().run_cancel == nullptr) return;
  for (quern_instance* instance : instances_) device_->call<&quern_plugin_api::run_cancel>(instance, nullptr);
}

quern_counters Plan::counters() const {
  quern_counters all{};
  all.header = header_of<quern_counters>(QUERN_TYPE_COUNTERS);
  if (device_->api().counters == nullptr) return all;
  for (quern_instance* instance : instances_) {
    quern_counters one{};
    one.header = all.header;
    if (device_->call<&quern_plugin_api::counters>(instance, &one, nullptr) != QUERN_OK) continue;
    all.runs += one.runs;
    all.device_allocations += one.device_allocations;
    all.host_allocations += one.host_allocations;
    all.compiles += one.compiles;
    all.rerecords += one.rerecords;
    all.host_copies += one.host_copies;
  }
  return all;
}

}  // namespace quern::runtime
