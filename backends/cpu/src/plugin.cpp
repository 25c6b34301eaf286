// The C functions of the plugin: each checks its arguments, then hands on. Nothing throws across them.
#include "abi_list.hpp"
#include "handles.hpp"
#include "identity.hpp"
#include "openblas.hpp"

#include "quern/quern_min_sizes.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

quern_string quern_plugin::keep(const std::string& text) {
  const std::lock_guard lock(kept_lock_);
  const std::string& kept = *kept_.insert(text).first;
  return {kept.data(), kept.size()};
}

namespace quern::cpu {
namespace {

constexpr std::uint32_t max_threads = 1024;

quern_string text_of(const char* text) noexcept { return {text, std::strlen(text)}; }

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is null"));
}

quern_plugin& alive(quern_plugin* plugin) {
  require(plugin, "plugin");
  if (plugin->pool->foreign_process()) throw Error(QUERN_FORKED, "the cpu plugin was created before fork; only destroy works in the child");
  return *plugin;
}
quern_device& alive(quern_device* device) {
  require(device, "device");
  alive(device->plugin);
  return *device;
}

/// AMX's tiles, where the processor and its system have them. Tiles that multiply wrongly are left with the reason, and if `demanded` refused by the
/// probe.
void take_amx(Processor& processor, bool demanded) {
  Processor with = processor;
  allow_amx(with);
  std::string fault = demanded || with.best != Isa::amx ? std::string() : compare_tiles();
  if (fault.empty()) processor = std::move(with);
  else processor.no_amx = std::move(fault);
}

std::string host_option(const quern_host& host, const char* key) {
  if (host.option == nullptr) return {};
  std::string value(64, '\0');
  std::uint64_t size = host.option(host.context, key, value.data(), value.size());
  if (size == UINT64_MAX) return {};
  if (size > 4096) throw Error(QUERN_INVALID_ARGUMENT, concat("option '", key, "' has ", size, " bytes, at most 4096 are taken"));
  if (size > value.size()) {
    value.resize(size);
    size = std::min<std::uint64_t>(host.option(host.context, key, value.data(), value.size()), value.size());
  }
  value.resize(size);
  return value;
}

quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
  return guarded(error, [&] {
    require(out, "out");
    *out = nullptr;
    read_struct<quern_host>(host, QUERN_TYPE_HOST, QUERN_MIN_SIZE_quern_host, "host");
    if (host->thread_count == 0 || host->thread_count > max_threads)
      throw Error(QUERN_INVALID_ARGUMENT, concat("thread_count is ", host->thread_count, "; it is 1 to ", max_threads));
    auto plugin = std::make_unique<quern_plugin>();
    plugin->host = host;
    plugin->processor = detect_processor();
    plugin->policy.thread_count = host->thread_count;
    const std::string deterministic = host_option(*host, "deterministic");
    plugin->policy.deterministic = !deterministic.empty() && deterministic != "0";
    const std::string force = host_option(*host, "force_kernel");
    if (family_allowed("amx", forced_name(force))) take_amx(plugin->processor, demands_amx(forced_name(force)));
    plugin->policy.best = plugin->processor.best;
    plugin->policy.no_amx = plugin->processor.no_amx;
    plugin->policy.force = check_forced_kernel(force, plugin->processor, QUERN_INVALID_ARGUMENT);
    const List<std::uint32_t> affinity(host->affinity, sizeof(std::uint32_t), "host.affinity");
    std::vector<std::uint32_t> processors;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(affinity.size(), max_threads); ++i) processors.push_back(affinity[i]);
    try {
      plugin->pool = std::make_unique<ThreadPool>(host->thread_count, processors);
    } catch (const std::system_error& e) {
      throw Error(QUERN_HOST_OUT_OF_MEMORY, concat("cannot start ", host->thread_count - 1, " threads: ", e.what(), "; set fewer threads"));
    }
    *out = plugin.release();
    return QUERN_OK;
  });
}

void destroy(quern_plugin* plugin) { delete plugin; }

quern_status probe(quern_plugin* plugin, quern_probe_report* report_out, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = alive(plugin);
    require(report_out, "report");
    quern_probe_report filled{};
    const quern_probe_report given =
        read_struct<quern_probe_report>(report_out, QUERN_TYPE_PROBE_REPORT, QUERN_MIN_SIZE_quern_probe_report, "report");
    filled.reasons = given.reasons;
    filled.reason_capacity = given.reason_capacity;
    const std::string fault = self_test(p.policy, *p.pool);
    filled.usable = fault.empty() ? 1 : 0;
    filled.reason_count = fault.empty() ? 0 : 1;
    if (!fault.empty() && given.reasons != nullptr && given.reason_capacity > 0) {
      quern_reason reason{};
      reason.code = QUERN_INTERNAL;
      reason.text = p.keep(fault);
      reason.remedy = text_of("set force_kernel=portable");
      write_struct(given.reasons, reason, QUERN_TYPE_REASON, QUERN_MIN_SIZE_quern_reason, "report.reasons");
    }
    write_struct(report_out, filled, QUERN_TYPE_PROBE_REPORT, QUERN_MIN_SIZE_quern_probe_report, "report");
    return QUERN_OK;
  });
}

quern_status device_count(quern_plugin* plugin, std::uint32_t* count, quern_error* error) {
  return guarded(error, [&] {
    alive(plugin);
    require(count, "count");
    *count = 1;
    return QUERN_OK;
  });
}

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = alive(plugin);
    if (index != 0) throw Error(QUERN_NOT_FOUND, concat("device ", index, " was asked; the cpu plugin has device 0 only"));
    quern_device_info info{};
    info.device_class = QUERN_DEVICE_CPU;
    info.caps = QUERN_CAP_SYNCHRONOUS | QUERN_CAP_HOST_MEMORY;
    info.name = {p.processor.name.data(), p.processor.name.size()};
    info.architecture = {p.processor.architecture.data(), p.processor.architecture.size()};
    info.memory_alignment = span_alignment;
    info.numa_node = QUERN_NONE;
    write_struct(out, info, QUERN_TYPE_DEVICE_INFO, QUERN_MIN_SIZE_quern_device_info, "device_info");
    return QUERN_OK;
  });
}

quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = alive(plugin);
    require(out, "out");
    *out = nullptr;
    if (index != 0) throw Error(QUERN_NOT_FOUND, concat("device ", index, " was asked; the cpu plugin has device 0 only"));
    auto device = std::make_unique<quern_device>();
    device->plugin = &p;
    p.devices.fetch_add(1);
    *out = device.release();
    return QUERN_OK;
  });
}

quern_status device_close(quern_device* device, quern_error* error) {
  return guarded(error, [&] {
    require(device, "device");
    if (const std::uint32_t plans = device->plans.load(); plans != 0)
      throw Error(QUERN_BUSY, concat("the device still has ", plans, " plans; destroy them first"));
    device->plugin->devices.fetch_sub(1);
    delete device;
    return QUERN_OK;
  });
}

quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                     quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = *alive(device).plugin;
    if (options != nullptr) {
      const auto read =
          read_struct<quern_support_options>(options, QUERN_TYPE_SUPPORT_OPTIONS, QUERN_MIN_SIZE_quern_support_options, "options");
      if (read.flags != 0) throw Error(QUERN_UNSUPPORTED, concat("unknown support flags ", read.flags));
    }
    const Graph checked = read_graph(graph);
    if (checked.nodes.empty()) return QUERN_OK;
    require(answers, "answers");
    auto* at = reinterpret_cast<std::byte*>(answers);
    const std::uint32_t step = answers->header.struct_size;
    for (const Node& node : checked.nodes) {
      Selection selection = select_kernel(checked, node, p.policy);
      quern_answer answer{};
      answer.verdict = selection.kernel != nullptr ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
      if (selection.kernel != nullptr) {
        answer.kernel = text_of(selection.kernel->name);
      } else {
        answer.code = selection.verdict.code;
        answer.text = p.keep(selection.verdict.text);
      }
      write_struct(reinterpret_cast<quern_answer*>(at), answer, QUERN_TYPE_ANSWER, QUERN_MIN_SIZE_quern_answer, "answers");
      at += step;
    }
    return QUERN_OK;
  });
}

/// The device is synchronous: a queue or a fence that were taken and not looked at would order nothing.
void require_synchronous(const quern_queue* queue, const quern_sync* sync) {
  if (queue != nullptr) throw Error(QUERN_INVALID_ARGUMENT, "a queue is named; this device is synchronous, the host keeps its queues");
  if (sync == nullptr) return;
  const auto read = read_struct<quern_sync>(sync, QUERN_TYPE_SYNC, QUERN_MIN_SIZE_quern_sync, "sync");
  if (read.wait.count != 0 || read.signal.count != 0)
    throw Error(QUERN_INVALID_ARGUMENT, "fences are named; this device is synchronous, the host keeps its fences");
}

quern_status weights_plan(quern_device* device, const quern_array* graphs, std::uint64_t, quern_array* items, quern_error* error) {
  return guarded(error, [&] {
    const quern_plugin& p = *alive(device).plugin;
    require(graphs, "graphs");
    require(items, "items");
    *items = {};
    const List<const quern_graph*> list(*graphs, sizeof(const quern_graph*), "graphs");
    const PackedSet* set = packed_set_for(p.processor, packing_isa(p.policy.force, p.policy.best));
    if (set == nullptr) return QUERN_OK;  // nothing is packed: constants stay canonical
    std::vector<Graph> checked;
    for (std::uint64_t i = 0; i < list.size(); ++i) checked.push_back(read_graph(list[i]));
    std::unique_ptr<WeightList> planned = plan_weights(checked, *set);
    if (planned->items.empty()) return QUERN_OK;
    const quern_array found{planned->items.data(), planned->items.size(), sizeof(quern_weight_item)};
    const std::lock_guard lock(device->weights_lock);
    device->weights.push_back(std::move(planned));
    *items = found;
    return QUERN_OK;
  });
}

quern_status weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item, const quern_array* sources,
                          const quern_array* destination, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    const quern_plugin& p = *alive(device).plugin;
    require(sources, "sources");
    require(destination, "destination");
    require_synchronous(queue, sync);
    const auto read = read_struct<quern_weight_item>(item, QUERN_TYPE_WEIGHT_ITEM, QUERN_MIN_SIZE_quern_weight_item, "item");
    pack_weight(read_string(read.layout_key), *sources, *destination, *p.pool);
    return QUERN_OK;
  });
}

quern_status weights_release(quern_device* device, quern_array* items, quern_error* error) {
  return guarded(error, [&] {
    require(device, "device");
    require(items, "items");
    if (items->count == 0) return QUERN_OK;
    std::unique_lock lock(device->weights_lock, std::defer_lock);
    if (device->process == getpid()) {
      lock.lock();
    } else if (!lock.try_lock()) {  // in a forked child: the thread that had it is not here
      *items = {};
      return QUERN_OK;
    }
    const auto released = std::erase_if(device->weights, [&](const auto& list) { return list->items.data() == items->data; });
    if (released == 0) throw Error(QUERN_INVALID_ARGUMENT, "these items were not planned by this device, or were released before");
    *items = {};
    return QUERN_OK;
  });
}

quern_status compile(quern_device* device, const quern_graph* graph, quern_compile_options* options, quern_plan** out, quern_error* error) {
  std::vector<std::uint32_t> refused;
  const quern_status status = guarded(error, [&] {
    quern_plugin& p = *alive(device).plugin;
    require(out, "out");
    *out = nullptr;
    KernelPolicy policy = p.policy;
    if (options != nullptr) {
      const auto read =
          read_struct<quern_compile_options>(options, QUERN_TYPE_COMPILE_OPTIONS, QUERN_MIN_SIZE_quern_compile_options, "options");
      if (read.communicators.count != 0) throw Error(QUERN_UNSUPPORTED, "this plugin has no collectives");
      if (read.effort > 2 || read.tuning > QUERN_TUNING_MEASURE || read.fusion > 1)
        throw Error(QUERN_UNSUPPORTED, concat("compile options are newer than this plugin: effort ", read.effort, ", tuning ", read.tuning,
                                              ", fusion ", read.fusion));
      const std::string force = check_forced_kernel(read_string(read.force_kernel, 4096), p.processor, QUERN_UNSUPPORTED);
      if (!force.empty()) policy.force = force;
      policy.fuse = read.fusion != 0;
      if (read.progress != nullptr && read.progress(read.progress_context, 0.0) == 0)
        throw Error(QUERN_CANCELLED, "compile was stopped by its caller");
    }
    auto plan = std::make_unique<quern_plan>();
    plan->plan = compile_plan(read_graph(graph), policy, refused);
    plan->device = device;
    device->plans.fetch_add(1);
    *out = plan.release();
    return QUERN_OK;
  });
  if (options != nullptr && options->header.struct_size >= QUERN_MIN_SIZE_quern_compile_options) {
    options->refused_count = refused.size();
    if (options->refused_nodes != nullptr)
      std::copy_n(refused.begin(), std::min<std::uint64_t>(refused.size(), options->refused_capacity), options->refused_nodes);
  }
  return status;
}

quern_status plan_info(quern_plan* plan, quern_plan_info* out, quern_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    quern_plan_info info{};
    info.determinism = plan->plan.determinism;
    info.launches = static_cast<std::uint32_t>(plan->plan.steps.size());
    info.numerics_key = plan->plan.numerics_key;
    info.kernels = {plan->plan.infos.data(), plan->plan.infos.size(), sizeof(quern_kernel_info)};
    info.schedules = plan->plan.told.list();
    write_struct(out, info, QUERN_TYPE_PLAN_INFO, QUERN_MIN_SIZE_quern_plan_info, "plan_info");
    return QUERN_OK;
  });
}

quern_status plan_destroy(quern_plan* plan, quern_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    if (const std::uint32_t live = plan->instances.load(); live != 0)
      throw Error(QUERN_BUSY, concat("the plan still has ", live, " instances; destroy them first"));
    plan->device->plans.fetch_sub(1);
    delete plan;
    return QUERN_OK;
  });
}

quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                             quern_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    alive(plan->device);
    require(out, "out");
    *out = nullptr;
    quern_instance_options read{};
    if (options != nullptr) {
      read = read_struct<quern_instance_options>(options, QUERN_TYPE_INSTANCE_OPTIONS, QUERN_MIN_SIZE_quern_instance_options, "options");
      if (read.queue_kind > QUERN_QUEUE_COMPUTE)
        throw Error(QUERN_UNSUPPORTED, concat("queue kind ", read.queue_kind, "; this device computes only"));
    }
    auto instance = std::make_unique<quern_instance>(plan);
    instance->instance.set_bounds(read.bounds);
    if (info != nullptr) {
      quern_instance_info filled{};
      filled.scratch_bytes = instance->instance.scratch_bytes();
      filled.scratch_alignment = span_alignment;
      filled.max_in_flight = 1;
      write_struct(info, filled, QUERN_TYPE_INSTANCE_INFO, QUERN_MIN_SIZE_quern_instance_info, "info");
    }
    plan->instances.fetch_add(1);
    *out = instance.release();
    return QUERN_OK;
  });
}

quern_status instance_destroy(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    require(instance, "instance");
    instance->owner->instances.fetch_sub(1);
    delete instance;
    return QUERN_OK;
  });
}

quern_instance& instance_of(quern_instance* instance, quern_device* device) {
  require(instance, "instance");
  if (instance->owner->device != device) throw Error(QUERN_INVALID_ARGUMENT, "the instance belongs to another device");
  return *instance;
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    alive(device);
    require(entries, "entries");
    require_synchronous(queue, sync);
    const List<quern_prepare_entry> list(*entries, QUERN_MIN_SIZE_quern_prepare_entry, "entries");
    std::vector<std::pair<Instance*, Binding>> checked;  // all entries or none
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      const auto entry =
          read_struct<quern_prepare_entry>(list.address(i), QUERN_TYPE_PREPARE_ENTRY, QUERN_MIN_SIZE_quern_prepare_entry, "entry");
      Instance& instance = instance_of(entry.instance, device).instance;
      checked.emplace_back(&instance, instance.check_binding(entry.bindings, entry.scratch));
    }
    for (const auto& [instance, binding] : checked) {
      if (instance->plan().uses_openblas) reserve_openblas(device->plugin->policy.thread_count);
      instance->bind(binding);
    }
    return QUERN_OK;
  });
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  return guarded(error, [&] {
    alive(device);
    require(runs, "runs");
    require_synchronous(queue, nullptr);
    const List<quern_run> list(*runs, QUERN_MIN_SIZE_quern_run, "runs");
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      const auto run = read_struct<quern_run>(list.address(i), QUERN_TYPE_RUN, QUERN_MIN_SIZE_quern_run, "run");
      instance_of(run.instance, device).instance.check_run(run);
    }
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      const quern_run run = list[i];
      run.instance->instance.execute(run, *device->plugin->pool);
    }
    return QUERN_OK;
  });
}

quern_status run_cancel(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    require(instance, "instance");
    instance->instance.cancel();
    return QUERN_OK;
  });
}

quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
  return guarded(error, [&] {
    require(instance, "instance");
    write_struct(out, instance->instance.counters(), QUERN_TYPE_COUNTERS, QUERN_MIN_SIZE_quern_counters, "counters");
    return QUERN_OK;
  });
}

quern_plugin_api make_api() noexcept {
  quern_plugin_api api{};
  api.abi_minor = QUERN_ABI_MINOR;
  api.opset_version = QUERN_OPSET_VERSION;
  api.format_table_version = QUERN_FORMAT_TABLE_VERSION;
  api.id = text_of(QUERN_CPU_ID);
  api.version = text_of(QUERN_CPU_VERSION);
  api.build = text_of(QUERN_CPU_BUILD);
  api.create = create;
  api.destroy = destroy;
  api.probe = probe;
  api.device_count = device_count;
  api.device_info = device_info;
  api.device_open = device_open;
  api.device_close = device_close;
  api.support = support;
  api.weights_plan = weights_plan;
  api.weights_pack = weights_pack;
  api.weights_release = weights_release;
  api.compile = compile;
  api.plan_info = plan_info;
  api.plan_destroy = plan_destroy;
  api.instance_create = instance_create;
  api.instance_destroy = instance_destroy;
  api.prepare = prepare;
  api.submit = submit;
  api.run_cancel = run_cancel;
  api.counters = counters;
  return api;
}

}  // namespace
}  // namespace quern::cpu

extern "C" __attribute__((visibility("default"))) quern_status quern_plugin_query_v1(const quern_query* query, quern_plugin_api* out,
                                                                                     quern_error* error) {
  using namespace quern::cpu;
  if (query == nullptr || query->header.struct_size < QUERN_MIN_SIZE_quern_query || query->header.struct_type != QUERN_TYPE_QUERY)
    return report(error, QUERN_INVALID_ARGUMENT, "query is null, too short or of another type");
  if (out == nullptr || out->header.struct_size < QUERN_MIN_SIZE_quern_plugin_api || out->header.struct_type != QUERN_TYPE_PLUGIN_API)
    return report(error, QUERN_INVALID_ARGUMENT, "the table to fill is null, shorter than in release 1.0 or of another type");
  if (query->abi_minor_min > QUERN_ABI_MINOR)
    return report(error, QUERN_VERSION, "the host needs a newer minor of the plugin ABI than this plugin was built for");
  quern_plugin_api api = make_api();
  api.abi_minor = std::min<std::uint32_t>(query->abi_minor, QUERN_ABI_MINOR);
  const std::uint32_t size = std::min<std::uint32_t>(out->header.struct_size, sizeof(api));
  api.header = {size, QUERN_TYPE_PLUGIN_API, out->header.next};
  std::memcpy(static_cast<void*>(out), &api, size);
  return QUERN_OK;
}
