// See plan.hpp.
#include "plan.hpp"

#include "abi_call.hpp"

#include <algorithm>
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
  error.check(device.api().support(device.handle(), view.get(), &options, answers.data(), error.out()),
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
      default:
        result[i].text = concat("offered under a requirement (verdict ", a.verdict, ") that this runtime cannot meet");
        break;
    }
    if (!result[i].yes && result[i].text.empty()) result[i].text = "the plugin gave no reason";
  }
  return result;
}

Plan::Plan(std::shared_ptr<loader::Device> device, const graph::Graph& graph, const std::string& force_kernel)
    : device_(std::move(device)), graph_name_(graph.name()) {
  const graph::GraphView view = graph.view_for_plugin();
  const quern_plugin_api& api = device_->api();
  for (const graph::Node& node : graph.nodes()) node_names_.push_back(node.name);

  quern_compile_options options{};
  options.header = header_of<quern_compile_options>(QUERN_TYPE_COMPILE_OPTIONS);
  options.effort = 1;
  options.fusion = 1;
  options.force_kernel = to_abi(force_kernel);
  AbiError error;
  error.check(api.compile(device_->handle(), view.get(), &options, &plan_, error.out()),
              concat(device_->label(), ": compiling '", graph_name_, "'"));

  try {
    read_kernels();
    make_instance(graph);
  } catch (...) {  // a constructor that throws has no destructor
    destroy();
    throw;
  }
}

void Plan::read_kernels() {
  const quern_plugin_api& api = device_->api();
  AbiError error;
  if (api.plan_info != nullptr) {
    quern_plan_info info{};
    info.header = header_of<quern_plan_info>(QUERN_TYPE_PLAN_INFO);
    if (api.plan_info(plan_, &info, error.out()) == QUERN_OK) {
      for (std::uint64_t i = 0; i < info.kernels.count; ++i) {
        const auto& kernel = element<quern_kernel_info>(info.kernels, i);
        kernels_.push_back({from_abi(kernel.name), from_abi(kernel.reason), kernel.node_count, kernel.node});
      }
    }
  }

}

void Plan::make_instance(const graph::Graph& graph) {
  bounds_.reserve(graph.symbols().size());
  AbiError error;
  quern_instance_options instance_options{};
  instance_options.header = header_of<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS);
  instance_options.queue_kind = QUERN_QUEUE_COMPUTE;
  instance_options.max_in_flight = 1;
  info_.header = header_of<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
  error.check(device_->api().instance_create(plan_, &instance_options, &instance_, &info_, error.out()),
              concat(device_->label(), ": making an instance of '", graph_name_, "'"));
}

void Plan::destroy() noexcept {
  if (instance_ != nullptr) device_->api().instance_destroy(instance_, nullptr);
  if (plan_ != nullptr) device_->api().plan_destroy(plan_, nullptr);
}

Plan::~Plan() { destroy(); }

void Plan::prepare(const std::vector<SlotBinding>& bindings, quern_span scratch) {
  std::vector<quern_binding> list(bindings.size());
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    list[i].header = header_of<quern_binding>(QUERN_TYPE_BINDING);
    list[i].value = bindings[i].value;
    list[i].spans = {&bindings[i].span, 1, sizeof(quern_span)};
  }
  quern_prepare_entry entry{};
  entry.header = header_of<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
  entry.instance = instance_;
  entry.bindings = {list.data(), list.size(), sizeof(quern_binding)};
  entry.scratch = scratch;
  const quern_array entries{&entry, 1, sizeof(entry)};
  AbiError error;
  error.check(device_->api().prepare(device_->handle(), nullptr, &entries, nullptr, error.out()),
              concat(device_->label(), ": preparing '", graph_name_, "'"));
}

void Plan::run(const std::vector<RunBound>& bounds) {
  bounds_.clear();
  for (const RunBound& b : bounds) bounds_.push_back({b.symbol - 1, 0, b.upper});
  quern_run_status status{};
  status.header = header_of<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  status.node = QUERN_NONE;
  quern_run run{};
  run.header = header_of<quern_run>(QUERN_TYPE_RUN);
  run.instance = instance_;
  run.bounds = {bounds_.data(), bounds_.size(), sizeof(quern_bound)};
  run.status = &status;
  const quern_array runs{&run, 1, sizeof(run)};
  AbiError error;
  const quern_status submitted = device_->api().submit(device_->handle(), nullptr, &runs, error.out());
  const quern_status code = submitted != QUERN_OK ? submitted : status.code;
  if (code == QUERN_OK) return;
  const std::string where = status.node < node_names_.size() ? concat(" at '", node_names_[status.node], "'") : "";
  error.check(code, concat(device_->label(), ": running '", graph_name_, "'", where));
}

void Plan::cancel() noexcept {
  if (device_->api().run_cancel != nullptr) device_->api().run_cancel(instance_, nullptr);
}

quern_counters Plan::counters() const {
  quern_counters out{};
  out.header = header_of<quern_counters>(QUERN_TYPE_COUNTERS);
  if (device_->api().counters != nullptr) device_->api().counters(instance_, &out, nullptr);
  return out;
}

}  // namespace quern::runtime
