// The C functions of the wrapper: each hands on to the plugin underneath, spoiled as the option `mutant` says.
//
// Options of the host: base=FILE the plugin to wrap, mutant=NAME a row of ../mutants.def ("none": nothing is spoiled). Sessions have no options
// for plugins; there QUERN_MUTANT_BASE and QUERN_MUTANT_NAME of the environment say it.
// memory=BYTES what the simulated device has, the machine's without it. With QUERN_MUTANT_PROBED=FILE in the environment every probe by a helper
// but the first, which makes that file, takes 6 s, as probes do that start side by side on one card.
#include "plugin.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace quern::mutant {
namespace {

using sdk::Failure;
using sdk::guarded;

std::string option(const quern_host& host, const char* key) {
  if (host.option == nullptr) return {};
  std::string value(4096, '\0');
  const std::uint64_t size = host.option(host.context, key, value.data(), value.size());
  if (size == UINT64_MAX) return {};
  if (size > value.size()) throw Failure(QUERN_INVALID_ARGUMENT, sdk::concat("option '", key, "' has ", size, " bytes"));
  value.resize(size);
  return value;
}

template <class T>
T& given(T* handle, const char* name) {
  if (handle == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, sdk::concat(name, " is null"));
  return *handle;
}

/// What the first host of this process said. Scripts of the suite make hosts of their own, which have no options of wrappers.
struct Remembered {
  std::mutex lock;
  std::string base, mutant, memory;
};
Remembered& remembered() {
  static Remembered said;
  return said;
}

std::string option_or(const quern_host& host, const char* key, std::string Remembered::*before, const char* variable = nullptr) {
  std::string value = option(host, key);
  if (value.empty() && variable != nullptr)
    if (const char* const text = std::getenv(variable); text != nullptr) value = text;
  const std::lock_guard guard(remembered().lock);
  if (value.empty()) return remembered().*before;
  return remembered().*before = value;
}

Mutation chosen(const std::string& name) {
  if (name.empty()) throw Failure(QUERN_INVALID_ARGUMENT, "the option 'mutant' names no mutant; 'none' spoils nothing");
  if (auto mutation = find_mutation(name)) return *std::move(mutation);
  throw Failure(QUERN_INVALID_ARGUMENT, "there is no mutant '" + name + "'; conformance/mutant/mutants.def lists them");
}

std::optional<GraphCopy> copied(const quern_graph* graph) {
  try {
    return GraphCopy(graph);
  } catch (const Failure&) {
    return std::nullopt;  // the plugin underneath says what is wrong with it
  }
}

/// The graph that the plugin underneath sees: the host's own where nothing is edited.
class EditedGraph {
 public:
  EditedGraph(const Mutation& mutation, const quern_graph* graph) : graph_(graph) {
    if (mutation.edit_graph) copy_ = copied(graph);
    if (copy_) mutation.edit_graph(*copy_);
  }
  const quern_graph* get() { return copy_ ? copy_->view() : graph_; }
  std::optional<GraphCopy>& copy() noexcept { return copy_; }

 private:
  const quern_graph* graph_;
  std::optional<GraphCopy> copy_;
};

quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
  return guarded(error, [&] {
    given(out, "out") = nullptr;
    sdk::read(host);
    auto plugin = std::make_unique<quern_plugin>();
    plugin->host = host;
    plugin->memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    plugin->mutation = chosen(option_or(*host, "mutant", &Remembered::mutant, "QUERN_MUTANT_NAME"));
    if (const std::string bytes = option_or(*host, "memory", &Remembered::memory); !bytes.empty()) {
      const auto [end, wrong] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), plugin->memory);
      if (wrong != std::errc() || end != bytes.data() + bytes.size())
        throw Failure(QUERN_INVALID_ARGUMENT, sdk::concat("the option 'memory' is '", bytes, "', not a number of bytes"));
    }
    plugin->base = Base::open(option_or(*host, "base", &Remembered::base, "QUERN_MUTANT_BASE"));
    if (const quern_status status = plugin->api().create(host, &plugin->under, error); status != QUERN_OK) return status;
    *out = plugin.release();
    return QUERN_OK;
  });
}

void destroy(quern_plugin* plugin) {
  if (plugin == nullptr) return;
  plugin->api().destroy(plugin->under);
  delete plugin;
}

quern_status probe(quern_plugin* plugin, quern_probe_report* report, quern_error* error) {
  return guarded(error, [&] {
    const char* probed = std::getenv("QUERN_MUTANT_PROBED");
    if (probed != nullptr && std::string_view(program_invocation_short_name) == "quern-probe") {
      if (std::filesystem::exists(probed)) std::this_thread::sleep_for(std::chrono::seconds(6));
      else std::ofstream{probed};
    }
    return given(plugin, "plugin").api().probe(plugin->under, report, error);
  });
}

quern_status device_count(quern_plugin* plugin, std::uint32_t* count, quern_error* error) {
  return guarded(error, [&] {
    const quern_status status = given(plugin, "plugin").api().device_count(plugin->under, count, error);
    if (status == QUERN_OK && plugin->behaviour() == Behaviour::no_device) *count = 0;
    return status;
  });
}

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_status status = given(plugin, "plugin").api().device_info(plugin->under, index, out, error);
    if (status == QUERN_OK) offer(*out);
    if (status == QUERN_OK && plugin->mutation.declares_card) out->device_class = QUERN_DEVICE_DISCRETE;
    if (status == QUERN_OK && plugin->mutation.declares_ftz) out->architecture = sdk::text_of("mutant ftz");
    return status;
  });
}

quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
  return guarded(error, [&] {
    given(plugin, "plugin").process.check();
    given(out, "out") = nullptr;
    count_open(*plugin);
    auto device = std::make_unique<quern_device>();
    device->plugin = &given(plugin, "plugin");
    if (const quern_status status = plugin->api().device_open(plugin->under, index, &device->under, error); status != QUERN_OK)
      return status;
    *out = device.release();
    return QUERN_OK;
  });
}

quern_status device_close(quern_device* device, quern_error* error) {
  return guarded(error, [&] {
    finish_late_runs(given(device, "device"));
    if (require_no_children(*device)) return QUERN_OK;  // closes_with_children: said, and not done
    if (const quern_status status = device->plugin->api().device_close(device->under, error); status != QUERN_OK) return status;
    delete device;
    return QUERN_OK;
  });
}

/// The device, unless it is lost: then it answers nothing else [C18].
quern_device& alive(quern_device* device) {
  if (given(device, "device").plugin->lost) throw Failure(QUERN_DEVICE_LOST, "the device was lost");
  return *device;
}

void answer_all(const quern_graph* graph, quern_answer* answers, bool yes) {
  const std::uint64_t count = sdk::List<quern_node>(sdk::read(graph).nodes, "nodes").size();
  const sdk::Answers list(answers, count);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto answer = sdk::made<quern_answer>();
    answer.verdict = yes ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
    answer.code = yes ? QUERN_OK : QUERN_UNSUPPORTED;
    (yes ? answer.kernel : answer.text) = sdk::text_of(yes ? "mutant.nothing" : "this mutant supports nothing");
    list.set(i, answer);
  }
}

bool denies(quern_device& device) {
  switch (device.plugin->behaviour()) {
    case Behaviour::says_no:
    case Behaviour::says_no_compiles:
    case Behaviour::other_refusal: return true;
    case Behaviour::changing_support: return device.support_calls++ % 2 == 1;
    default: return false;
  }
}

quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                     quern_error* error) {
  return guarded(error, [&] {
    const Mutation& m = alive(device).plugin->mutation;
    if (m.behaviour == Behaviour::null_plugin) return answer_all(graph, answers, true), QUERN_OK;
    quern_support_options lenient = sdk::made<quern_support_options>();
    if (m.behaviour == Behaviour::accepts_run_flags) options = &lenient;
    EditedGraph edited(m, graph);
    const quern_status status = device->plugin->api().support(device->under, edited.get(), options, answers, error);
    if (status == QUERN_OK && denies(*device)) answer_all(graph, answers, false);
    if (m.behaviour == Behaviour::lost_in_no && (status != QUERN_OK || answers->verdict == QUERN_ANSWER_NO)) {
      device->plugin->lost = true;
      alive(device);
    }
    return status;
  });
}

quern_status weights_plan(quern_device* device, const quern_array* graphs, std::uint64_t budget, quern_array* items, quern_error* error) {
  return guarded(error, [&] {
    const Mutation& m = alive(device).plugin->mutation;
    if (m.behaviour == Behaviour::null_plugin) return given(items, "items") = {}, QUERN_OK;
    std::vector<EditedGraph> edited;
    std::vector<const quern_graph*> views;
    const auto& list = given(graphs, "graphs");
    for (std::uint64_t i = 0; i < list.count; ++i)
      edited.emplace_back(m, *reinterpret_cast<const quern_graph* const*>(static_cast<const std::byte*>(list.data) + i * list.stride));
    for (EditedGraph& g : edited) views.push_back(g.get());
    const quern_array all{views.data(), views.size(), sizeof(const quern_graph*)};
    return device->plugin->api().weights_plan(device->under, m.edit_graph ? &all : graphs, budget, items, error);
  });
}

quern_status weights_release(quern_device* device, quern_array* items, quern_error* error) {
  return guarded(error, [&] {
    const quern_plugin& plugin = *alive(device).plugin;
    return plugin.behaviour() == Behaviour::null_plugin ? QUERN_OK : plugin.api().weights_release(device->under, items, error);
  });
}

/// Uses the attributes of the first node that had these dims and dtypes: a cache of plans whose key lacks them.
void use_first_attributes(quern_device& device, GraphCopy& graph) {
  if (graph.nodes.size() != 1) return;
  NodeCopy& node = graph.nodes[0];
  std::string key = std::to_string(node.fields.op);
  for (const quern_value& v : graph.values) {
    key += "," + std::to_string(v.dtype);
    for (std::uint32_t d = 0; d < v.rank; ++d) key += "x" + std::to_string(v.dims[d]);
  }
  const std::lock_guard lock(device.lock);
  const auto found = device.first_attributes.emplace(key, node.attributes);
  node.attributes = found.first->second;
}

quern_status refuse(Behaviour behaviour, quern_error* error) {
  switch (behaviour) {
    case Behaviour::says_no:
    case Behaviour::says_yes_refuses: return sdk::set_error(error, QUERN_UNSUPPORTED, "this mutant compiles nothing");
    case Behaviour::other_refusal: return sdk::set_error(error, QUERN_INTERNAL, "this mutant compiles nothing");
    default: return QUERN_OK;
  }
}

/// Only now: a graph that the plugin underneath took is well formed. Destroys its plan where there is no memory for the copy.
void describe(quern_plan& plan, const quern_graph* graph, const quern_compile_options* options) {
  try {
    plan.graph = copied(graph);
  } catch (const std::bad_alloc&) {
    if (plan.under != nullptr) plan.device->plugin->api().plan_destroy(plan.under, nullptr);
    throw;
  }
  plan.fused = plan.graph && plan.graph->nodes.size() > 1 && (options == nullptr || sdk::read(options).fusion != 0);
}

quern_status compile(quern_device* device, const quern_graph* graph, quern_compile_options* options, quern_plan** out, quern_error* error) {
  return guarded(error, [&] {
    const Mutation& m = alive(device).plugin->mutation;
    if (const quern_status status = refuse(m.behaviour, error); status != QUERN_OK) return status;
    given(out, "out") = nullptr;
    auto plan = std::make_unique<quern_plan>();
    plan->device = device;
    if (m.behaviour != Behaviour::null_plugin) {
      EditedGraph edited(m, graph);
      if (m.behaviour == Behaviour::plan_cache_without_attributes && (edited.copy() = copied(graph)))
        use_first_attributes(*device, *edited.copy());
      quern_compile_options freed;
      if (m.behaviour == Behaviour::ignores_force_kernel && options != nullptr) {
        freed = sdk::read(options);
        freed.force_kernel = {};
        options = &freed;
      }
      if (m.behaviour == Behaviour::accepts_small_structs && options != nullptr &&
          options->header.struct_size < QUERN_MIN_SIZE_quern_compile_options)
        options = nullptr;
      const quern_status status = device->plugin->api().compile(device->under, edited.get(), options, &plan->under, error);
      if (status != QUERN_OK) return status;
    }
    describe(*plan, graph, options);
    plan->number = ++device->plans;
    *out = plan.release();
    return QUERN_OK;
  });
}

quern_status plan_info(quern_plan* plan, quern_plan_info* out, quern_error* error) {
  return guarded(error, [&] {
    if (given(plan, "plan").under != nullptr) {
      const quern_status status = plan->device->plugin->api().plan_info(plan->under, out, error);
      if (status == QUERN_OK) tell_of_plan(*plan, *out);
      if (status == QUERN_OK) tell_of_schedules(*plan, *out);
      if (status == QUERN_OK && plan->device->plugin->behaviour() == Behaviour::told_free) out->determinism = QUERN_DETERMINISM_FREE;
      return status;
    }
    sdk::check(out);
    sdk::write(out, sdk::made<quern_plan_info>());
    return QUERN_OK;
  });
}

quern_status plan_destroy(quern_plan* plan, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& plugin = *given(plan, "plan").device->plugin;
    finish_late_runs(*plan->device);
    if (plan->under != nullptr)
      if (const quern_status status = plugin.api().plan_destroy(plan->under, error); status != QUERN_OK) return status;
    --plan->device->plans;
    delete plan;
    return QUERN_OK;
  });
}

quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                             quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& plugin = *alive(given(plan, "plan").device).plugin;
    given(out, "out") = nullptr;
    auto instance = std::make_unique<quern_instance>();
    instance->plan = plan;
    if (plan->under == nullptr) {
      auto filled = sdk::made<quern_instance_info>();
      filled.scratch_alignment = 64;
      filled.max_in_flight = 1;
      sdk::write(&given(info, "info"), filled);
    } else {
      if (plugin.behaviour() == Behaviour::accepts_small_structs && options != nullptr &&
          options->header.struct_size < QUERN_MIN_SIZE_quern_instance_options)
        options = nullptr;
      const quern_status status = plugin.api().instance_create(plan->under, options, &instance->under, info, error);
      if (status != QUERN_OK) return status;
      if (info != nullptr && plugin.behaviour() == Behaviour::depends_on_scratch) info->scratch_bytes += watched_scratch;
    }
    *out = instance.release();
    return QUERN_OK;
  });
}

quern_status instance_destroy(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    quern_device& device = *given(instance, "instance").plan->device;
    quern_plugin& plugin = *device.plugin;
    finish_late_runs(device);
    if (instance->under != nullptr)
      if (const quern_status status = plugin.api().instance_destroy(instance->under, error); status != QUERN_OK) return status;
    if (instance->plan->prepared_last == instance) instance->plan->prepared_last = nullptr;
    if (plugin.behaviour() == Behaviour::previous_answer) {
      const std::lock_guard lock(plugin.lock);
      plugin.answer = instance->answer;
    }
    delete instance;
    return QUERN_OK;
  });
}

quern_status run_cancel(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    const quern_plugin& plugin = *given(instance, "instance").plan->device->plugin;
    if (plugin.behaviour() == Behaviour::ignores_cancel || instance->under == nullptr) return QUERN_OK;
    return plugin.api().run_cancel(instance->under, error);
  });
}

quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_plugin& plugin = *given(instance, "instance").plan->device->plugin;
    if (instance->under == nullptr) return sdk::check(out), sdk::write(out, sdk::made<quern_counters>()), QUERN_OK;
    const quern_status status = plugin.api().counters(instance->under, out, error);
    if (status != QUERN_OK) return status;
    if (plugin.behaviour() == Behaviour::counts_allocation) out->host_allocations += out->runs;
    if (plugin.behaviour() == Behaviour::counts_compile) out->compiles += out->runs;
    if (plugin.behaviour() == Behaviour::counts_rerecord) out->rerecords += out->runs;
    return QUERN_OK;
  });
}

}  // namespace

void lose_packed_tail(const quern_plugin& plugin, const quern_span& packed) {
  if (plugin.behaviour() != Behaviour::loses_packed_tail || packed.host == nullptr) return;
  const std::uint64_t bytes = std::min<std::uint64_t>(packed.bytes, 64);
  std::fill_n(static_cast<std::byte*>(packed.host) + packed.bytes - bytes, bytes, std::byte{0});
}

quern_plugin_api common_table() noexcept {
  quern_plugin_api api = sdk::make_api();
  api.create = create;
  api.destroy = destroy;
  api.probe = probe;
  api.device_count = device_count;
  api.device_info = device_info;
  api.device_open = device_open;
  api.device_close = device_close;
  api.support = support;
  api.weights_plan = weights_plan;
  api.weights_release = weights_release;
  api.compile = compile;
  api.plan_info = plan_info;
  api.plan_destroy = plan_destroy;
  api.instance_create = instance_create;
  api.instance_destroy = instance_destroy;
  api.run_cancel = run_cancel;
  api.counters = counters;
  return api;
}

}  // namespace quern::mutant
