// The C functions of a plugin that are the same whether its devices run synchronously (synchronous.hpp) or take work on queues
// (asynchronous.hpp): they check, then hand on. And the checks of the functions that differ.
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_DEVICE_CALLS_HPP
#define QUERN_SDK_DEVICE_CALLS_HPP

#include "quern/sdk/handles.hpp"

namespace quern {
namespace sdk {

namespace detail {

template <class Device, class = void>
struct HasTrim : std::false_type {};
template <class Device>
struct HasTrim<Device, std::void_t<decltype(std::declval<Device&>().trim(0u))>> : std::true_type {};

template <class Device, class = void>
struct HasPacking : std::false_type {};
template <class Device>
struct HasPacking<Device, std::void_t<decltype(std::declval<Device&>().packing())>> : std::true_type {};

template <class Device, class Memory, class = void>
struct HasRetire : std::false_type {};
template <class Device, class Memory>
struct HasRetire<Device, Memory, std::void_t<decltype(std::declval<Device&>().retire(std::declval<Memory&>()))>> : std::true_type {};

template <class Plan, class = void>
struct HasTold : std::false_type {};
template <class Plan>
struct HasTold<Plan, std::void_t<decltype(std::declval<const Plan&>().told.list())>> : std::true_type {};

template <class Backend, class = void>
struct HasBuffers : std::false_type {};
template <class Backend>
struct HasBuffers<Backend, std::void_t<typename Backend::Memory>> : std::true_type {};

template <class Device, class = void>
struct SpanAlignment {
  static constexpr std::uint64_t value = span_alignment;
};
template <class Device>
struct SpanAlignment<Device, std::void_t<decltype(Device::span_alignment)>> {
  static constexpr std::uint64_t value = Device::span_alignment;
};

template <class Device, class = void>
struct ViewAlignment {
  static constexpr std::uint64_t value = 1;
};
template <class Device>
struct ViewAlignment<Device, std::void_t<decltype(Device::view_alignment)>> {
  static constexpr std::uint64_t value = Device::view_alignment;
};

}  // namespace detail

template <class Backend>
class DeviceCalls {
 protected:
  using Device = typename Backend::Device;
  using quern_plugin = typename HandlesOf<Backend>::Plugin;
  using quern_device = typename HandlesOf<Backend>::Device;
  using quern_buffer = typename HandlesOf<Backend>::Buffer;
  using quern_plan = typename HandlesOf<Backend>::Plan;
  using quern_instance = typename HandlesOf<Backend>::Instance;
  static constexpr bool has_buffers = detail::HasBuffers<Backend>::value;
  static constexpr std::uint64_t alignment = detail::SpanAlignment<Device>::value;

  /// A table without the functions that differ.
  static quern_plugin_api common_table(const char* id, const char* version, const char* build) noexcept {
    quern_plugin_api api = make_api();
    api.id = text_of(id);
    api.version = text_of(version);
    api.build = text_of(build);
    api.create = create;
    api.destroy = [](quern_plugin* plugin) {
      // After a fork the driver's threads are gone, and what the handle has of it is the parent's: it is left as it is.
      if (plugin != nullptr && plugin->process.is_this_one()) delete plugin;
    };
    api.probe = probe;
    api.device_count = device_count;
    api.device_open = device_open;
    api.device_close = device_close;
    if constexpr (has_buffers) {
      api.heap_info = heap_info;
      api.memory_limit = memory_limit;
      api.buffer_create = buffer_create;
    }
    api.support = support;
    api.compile = compile;
    api.plan_info = plan_info;
    api.plan_destroy = plan_destroy;
    api.instance_create = instance_create;
    api.run_cancel = [](quern_instance* instance, quern_error* error) {
      return guarded(error, [&] { alive(instance).instance.cancel(); });
    };
    api.counters = counters;
    if constexpr (detail::HasTrim<Device>::value) api.trim = trim;
    if constexpr (detail::HasPacking<Device>::value) {
      api.weights_plan = weights_plan;
      api.weights_release = weights_release;
    }
    return api;
  }

  template <class T>
  static T& object(T* handle, const char* what) {
    if (handle == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, concat("the ", what, " is null"));
    return *handle;
  }
  static quern_plugin& alive(quern_plugin* plugin) {
    object(plugin, "plugin").process.check();
    return *plugin;
  }
  static quern_device& alive(quern_device* device) {
    object(device, "device").plugin.process.check();
    return *device;
  }
  static quern_buffer& alive(quern_buffer* buffer) {
    object(buffer, "buffer").owner.plugin.process.check();
    return *buffer;
  }
  static quern_plan& alive(quern_plan* plan) {
    object(plan, "plan").owner.plugin.process.check();
    return *plan;
  }
  static quern_instance& alive(quern_instance* instance) {
    object(instance, "instance").owner.owner.plugin.process.check();
    return *instance;
  }
  static void check_index(std::uint32_t index, std::uint32_t count, const char* what) {
    if (index >= count) throw Failure(QUERN_NOT_FOUND, concat(what, " ", index, " was asked, there are ", count));
  }
  /// The buffer of a span that holds `bytes` in it.
  static quern_buffer& buffer_of(quern_device& device, const quern_span& span, std::uint64_t bytes) {
    if (span.buffer == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "the span is in no buffer", 16);
    quern_buffer& buffer = *span.buffer;
    if (&buffer.owner != &device) throw Failure(QUERN_INVALID_ARGUMENT, "the span is in a buffer of another device", 16);
    if (span.offset > buffer.bytes || span.bytes > buffer.bytes - span.offset || bytes > span.bytes)
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat(bytes, " bytes at ", span.offset, " of a buffer of ", buffer.bytes, ", in a span of ", span.bytes), 16);
    return buffer;
  }
  static quern_instance& instance_of(quern_instance* instance, quern_device& device) {
    quern_instance& i = object(instance, "instance");  // as alive as its device
    if (&i.owner.owner != &device) throw Failure(QUERN_INVALID_ARGUMENT, "the instance belongs to another device");
    return i;
  }

  /// Source and target of a copy inside the device.
  static std::pair<quern_buffer*, quern_buffer*> copy_ends(quern_device& device, const quern_span* to, const quern_span* from,
                                                           std::uint64_t bytes) {
    quern_buffer &target = buffer_of(device, object(to, "target span"), bytes),
                 &source = buffer_of(device, object(from, "source span"), bytes);
    if (bytes > 0 && &target == &source && to->offset < from->offset + bytes && from->offset < to->offset + bytes)
      throw Failure(QUERN_INVALID_ARGUMENT, "a copy within a buffer overlaps itself", 31);
    return {&source, &target};
  }
  static quern_buffer& fill_end(quern_device& device, const quern_span* to, std::uint64_t bytes) {
    quern_buffer& target = buffer_of(device, object(to, "span"), bytes);
    if (to->offset % 4 != 0 || bytes % 4 != 0) throw Failure(QUERN_INVALID_ARGUMENT, "fill writes whole 4-byte words");
    return target;
  }

  /// What weights_pack is asked: spans that are not checked, and the layout.
  template <class Layout>
  struct Packed {
    quern_span from{}, to{};
    Layout layout;
    std::string key;
  };
  static auto packed(quern_device& device, const quern_weight_item* item, const quern_array* sources, const quern_array* destination) {
    const quern_weight_item i = read(item);
    const List<quern_span> from_list(object(sources, "list of sources"), "sources"),
        to_list(object(destination, "destination"), "destination");
    const auto* packing = device.device->packing();
    const auto layout = packing == nullptr ? decltype(packing->parse({})){} : packing->parse(view(i.layout_key));
    const std::string key(view(i.layout_key));
    if (!layout) throw Failure(QUERN_UNSUPPORTED, concat("'", key, "' is no layout of this plugin"));
    if (from_list.size() != 1 || to_list.size() != 1)
      throw Failure(QUERN_UNSUPPORTED, "a packed weight has one source and one destination span");
    return Packed<std::decay_t<decltype(layout)>>{from_list[0], to_list[0], layout, key};
  }
  static void require_packed_alignment(quern_device& device, std::uint64_t address) {
    using Packing = std::remove_pointer_t<decltype(device.device->packing())>;
    if (address % Packing::alignment != 0)
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat("the destination of a packed weight does not start at a multiple of ", Packing::alignment), 16);
  }

  /// The places that an entry of prepare binds its instance to. `seen(buffer)` gets each buffer.
  template <class Seen>
  static BoundPlaces places_of(quern_device& device, const quern_prepare_entry& entry, const Seen& seen) {
    typename Backend::Instance& i = instance_of(entry.instance, device).instance;
    constexpr SpansIn memory = has_buffers ? SpansIn::buffers : SpansIn::host_memory;
    return i.bounds().template check_bindings<memory>(entry.bindings, entry.scratch, i.scratch_bytes(), alignment,
                                                      detail::ViewAlignment<Device>::value,
                                                      [&](const quern_span& span, [[maybe_unused]] std::uint64_t bytes) -> std::uint64_t {
                                                        if constexpr (has_buffers) {
                                                          quern_buffer& buffer = buffer_of(device, span, bytes);
                                                          seen(&buffer);
                                                          return buffer.memory.address() + span.offset;
                                                        } else {
                                                          return reinterpret_cast<std::uintptr_t>(span.host);
                                                        }
                                                      });
  }
  /// Checks a run of a list and takes its bounds.
  static quern_instance& checked_run(quern_device& device, const quern_run& run) {
    quern_instance& i = instance_of(run.instance, device);
    if (!i.instance.ready()) throw Failure(QUERN_INVALID_ARGUMENT, "the instance is not prepared", 12);
    i.instance.bounds().check_run(run);
    return i;
  }

  static quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
    return guarded(error, [&] {
      object(out, "place for the plugin") = nullptr;
      const quern_host given = read(host);
      if (given.thread_count == 0) throw Failure(QUERN_INVALID_ARGUMENT, "thread_count is 0; it is at least 1");
      *out = new quern_plugin(given);
    });
  }

  static quern_status probe(quern_plugin* plugin, quern_probe_report* report, quern_error* error) {
    return guarded(error, [&] {
      quern_plugin& p = alive(plugin);
      quern_probe_report result = read(report);
      result.usable = result.reason_count = 0;
      const std::uint64_t step = result.reasons != nullptr ? result.reasons->header.struct_size : 0;
      const auto tell = [&](const Failure& failure, std::uint32_t device) {
        if (result.reasons != nullptr && result.reason_count < result.reason_capacity) {
          auto* place = reinterpret_cast<quern_reason*>(reinterpret_cast<char*>(result.reasons) + result.reason_count * step);
          check(place);
          quern_reason reason = made<quern_reason>();
          reason.code = failure.code;
          reason.reserved = device;
          reason.text = p.texts.keep(failure.text);
          p.backend.explain(failure, reason, p.texts);
          write(place, reason);
        }
        ++result.reason_count;
      };
      try {
        const std::uint32_t count = p.backend.device_count();
        if (count == 0) tell(Failure(QUERN_NOT_FOUND, p.backend.no_device()), 0);
        for (std::uint32_t i = 0; i < count; ++i) {
          try {
            p.backend.prove(i);
            ++result.usable;
          } catch (const Failure& failure) { tell(failure, i + 1); }
        }
      } catch (const Failure& failure) { tell(failure, 0); }
      write(report, result);
    });
  }

  static quern_status device_count(quern_plugin* plugin, std::uint32_t* count, quern_error* error) {
    return guarded(error, [&] {
      object(count, "place for the count") = 0;
      *count = alive(plugin).backend.device_count();
    });
  }

  /// `caps`: what the plugin's calls add.
  static quern_status fill_device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, std::uint64_t caps,
                                       quern_error* error) {
    return guarded(error, [&] {
      quern_plugin& p = alive(plugin);
      check_index(index, p.backend.device_count(), "device");
      check(out);
      quern_device_info info = p.backend.device_info(index, p.texts);
      info.caps |= caps;
      info.memory_alignment = alignment;
      write(out, info);
    });
  }

  static quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
    return guarded(error, [&] {
      quern_plugin& p = alive(plugin);
      object(out, "place for the device") = nullptr;
      check_index(index, p.backend.device_count(), "device");
      *out = new quern_device(p, p.backend.open(index));
      p.devices.fetch_add(1);
    });
  }

  static quern_status device_close(quern_device* device, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      if (const std::uint32_t children = d.children; children != 0)
        throw Failure(QUERN_BUSY, concat("device_close: ", children, " buffers or plans are alive"), 27);
      d.plugin.devices.fetch_sub(1);
      delete device;
    });
  }

  static quern_status heap_info(quern_device* device, std::uint32_t heap, quern_heap_info* out, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      check_index(heap, d.device->heap_count(), "heap");
      check(out);
      write(out, d.device->heap(heap));
    });
  }

  static quern_status memory_limit(quern_device* device, std::uint32_t heap, std::uint64_t bytes, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      check_index(heap, d.device->heap_count(), "heap");
      d.device->limit(heap, bytes);
    });
  }

  static quern_status buffer_create(quern_device* device, const quern_buffer_options* options, std::uint64_t bytes, quern_buffer** out,
                                    quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      object(out, "place for the buffer") = nullptr;
      std::uint32_t usage = 0;
      if (options != nullptr) {
        const quern_buffer_options o = read(options);
        check_index(o.heap, d.device->heap_count(), "heap");
        check_flags(o.usage, QUERN_USAGE_WEIGHTS | QUERN_USAGE_STATE | QUERN_USAGE_SCRATCH | QUERN_USAGE_STAGING, "buffer usage");
        usage = o.usage;
      }
      *out = new quern_buffer(d, d.device->allocate(bytes, usage), bytes);
      d.children.fetch_add(1);
    });
  }

  static quern_status trim(quern_device* device, std::uint32_t level, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      const std::lock_guard lock(d.device->order());
      d.device->trim(level);
    });
  }

  static quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                              quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      if (options != nullptr) check_flags(read(options).flags, 0, "support flags");
      const ResolvedGraph g(graph, d.device->offers());
      const Answers list(answers, g.nodes.size());
      for (std::size_t n = 0; n < g.nodes.size(); ++n) {
        const ResolvedNode& node = g.nodes[n];
        quern_answer answer = made<quern_answer>();
        answer.verdict = node.refusal.empty() ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
        answer.code = node.refusal.empty() ? QUERN_OK : node.choice.code;
        answer.text = d.plugin.texts.keep(node.refusal);
        if (node.refusal.empty()) answer.kernel = text_of(node.choice.kernel);
        list.set(n, answer);
      }
    });
  }

  static quern_status weights_plan(quern_device* device, const quern_array* graphs, std::uint64_t, quern_array* items, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      object(items, "place for the items") = {};
      const List<const quern_graph*> list(object(graphs, "list of graphs"), "graphs");
      const auto* packing = d.device->packing();
      if (packing == nullptr) return;  // its kernels read canonical blocks as fast
      std::vector<std::unique_ptr<ResolvedGraph>> read;
      for (const quern_graph* graph : list) read.push_back(std::make_unique<ResolvedGraph>(graph, d.device->offers()));
      auto planned = plan_weights(read, *packing);
      const quern_array found = {planned->items.data(), planned->items.size(), sizeof(quern_weight_item)};
      if (planned->items.empty()) return;
      const std::lock_guard<std::mutex> lock(d.weights_lock);
      d.weights.push_back(std::move(planned));
      *items = found;
    });
  }

  static quern_status weights_release(quern_device* device, quern_array* items, quern_error* error) {
    return guarded(error, [&] {
      quern_device& d = alive(device);
      if (object(items, "list of items").count == 0) return;
      const std::lock_guard<std::mutex> lock(d.weights_lock);
      const auto planned =
          std::find_if(d.weights.begin(), d.weights.end(), [&](const auto& list) { return list->items.data() == items->data; });
      if (planned == d.weights.end())
        throw Failure(QUERN_INVALID_ARGUMENT, "these items were not planned by this device, or were released before");
      d.weights.erase(planned);
      *items = {};
    });
  }

  static quern_status compile(quern_device* device, const quern_graph* graph, quern_compile_options* options, quern_plan** out,
                              quern_error* error) {
    std::vector<std::uint32_t> refused;
    const quern_status status = guarded(error, [&] {
      quern_device& d = alive(device);
      object(out, "place for the plan") = nullptr;
      quern_compile_options o = made<quern_compile_options>();
      o.effort = 1;
      o.fusion = 1;
      if (options != nullptr) o = read(options);
      if (o.communicators.count != 0) throw Failure(QUERN_UNSUPPORTED, refusal::collectives(), 19);
      if (o.effort > 2 || o.tuning > QUERN_TUNING_MEASURE || o.fusion > 1)
        throw Failure(QUERN_UNSUPPORTED,
                      concat("compile options are newer than this plugin: effort ", o.effort, ", tuning ", o.tuning, ", fusion ", o.fusion),
                      3);
      if (o.progress != nullptr && o.progress(o.progress_context, 0.0) == 0)
        throw Failure(QUERN_CANCELLED, "compile was stopped by its caller");
      *out = new quern_plan(d, graph, o, refused);
      d.children.fetch_add(1);
    });
    if (options != nullptr && QUERN_SDK_HAS(options, refused_count)) {
      options->refused_count = refused.size();
      if (options->refused_nodes != nullptr)
        std::copy_n(refused.begin(), std::min<std::uint64_t>(refused.size(), options->refused_capacity), options->refused_nodes);
    }
    return status;
  }

  static quern_status plan_info(quern_plan* plan, quern_plan_info* out, quern_error* error) {
    return guarded(error, [&] {
      const typename Backend::Plan& p = alive(plan).plan;
      check(out);
      quern_plan_info info = made<quern_plan_info>();
      info.determinism = p.determinism;
      info.launches = p.launches;
      info.numerics_key = p.numerics_key;
      info.kernels = {p.infos.data(), p.infos.size(), sizeof(quern_kernel_info)};
      if constexpr (detail::HasTold<typename Backend::Plan>::value) info.schedules = p.told.list();
      write(out, info);
    });
  }

  static quern_status plan_destroy(quern_plan* plan, quern_error* error) {
    return guarded(error, [&] {
      quern_plan& p = alive(plan);
      if (const std::uint32_t live = p.instances; live != 0)
        throw Failure(QUERN_BUSY, concat("plan_destroy: ", live, " instances are alive"), 27);
      p.owner.children.fetch_sub(1);
      delete plan;
    });
  }

  static quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out,
                                      quern_instance_info* info, quern_error* error) {
    return guarded(error, [&] {
      quern_plan& p = alive(plan);
      object(out, "place for the instance") = nullptr;
      auto instance = std::make_unique<quern_instance>(p);
      if (options != nullptr) {
        const quern_instance_options o = read(options);
        if (o.queue_kind > QUERN_QUEUE_COMPUTE)
          throw Failure(QUERN_UNSUPPORTED, concat("queue kind ", o.queue_kind, "; plans run on compute queues"));
        instance->instance.bounds().lower(o.bounds);
      }
      if (info != nullptr) {
        check(info);
        quern_instance_info filled = made<quern_instance_info>();
        filled.scratch_bytes = instance->instance.scratch_bytes();
        filled.scratch_alignment = alignment;
        filled.private_bytes = instance->instance.private_bytes();
        filled.max_in_flight = 1;
        write(info, filled);
      }
      p.instances.fetch_add(1);
      *out = instance.release();
    });
  }

  static quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
    return guarded(error, [&] {
      const quern_counters& c = alive(instance).instance.counters();
      check(out);
      write(out, c);
    });
  }
};

}  // namespace sdk
}  // namespace quern

#endif
