// The C functions of the plugin: each checks its arguments, then hands on. Nothing throws across them.
#include "handles.hpp"

#include <cstring>

namespace sdk = quern::sdk;
using namespace quern::cuda;
using sdk::guarded;

#define QUERN_CUDA_DEPENDENCIES "libcuda.so.1=nvidia-driver-libs;libnvrtc.so.13=libnvrtc13"
QUERN_PLUGIN_NOTE("cuda", QUERN_CUDA_VERSION, QUERN_DEVICE_DISCRETE, 0, QUERN_CUDA_DEPENDENCIES);

const Driver& quern_plugin::open_driver() {
  const std::lock_guard lock(opening);
  if (driver == nullptr) {
    auto opened = Driver::open("libcuda.so.1");
    cards = list_cards(*opened);
    driver = std::move(opened);
  }
  return *driver;
}

std::function<void(const std::string&)> quern_plugin::warnings() {
  return [this](const std::string& text) {
    if (host.log != nullptr) host.log(host.context, QUERN_LOG_WARN, sdk::text_of("cuda"), sdk::text_of(text));
  };
}

namespace quern::cuda {

std::string host_option(const quern_host& host, const char* key) {
  if (host.option == nullptr) return {};
  std::string value(256, '\0');
  const std::uint64_t size = host.option(host.context, key, value.data(), value.size());
  if (size == UINT64_MAX) return {};
  if (size > value.size()) refuse(concat("option '", key, "' has ", size, " bytes, at most ", value.size(), " are taken"));
  value.resize(size);
  return value;
}

std::string forced_kernel(std::string_view value, quern_status unknown) {
  if (const std::size_t colon = value.find(':'); colon != std::string_view::npos) {
    if (value.substr(0, colon) != "cuda") return {};
    value.remove_prefix(colon + 1);
  }
  const bool of_a_plan = unknown == QUERN_UNSUPPORTED && value.find(".cuda") != std::string_view::npos;  // looked for when it is compiled
  if (!value.empty() && value != "jit" && value != "plain" && value != "own" && !is_node_kernel(value) && !of_a_plan)
    throw Failure(unknown, concat("force_kernel is 'cuda:", std::string(value),
                                  "'; this plugin has jit (compile all kernels anew), plain (one kernel a node), own (no cuBLASLt) and the "
                                  "kernel names that plan_info gives"));
  return std::string(value);
}

const char* remedy_for(quern_status code, std::int64_t native_code) {
  switch (native_code) {
    case constant::device_unavailable: return "end the program that has the card for itself, which `nvidia-smi` names";
    case constant::driver_mismatch: return "restart the machine, so that the driver that was installed last is loaded: `sudo reboot`";
    case constant::system_not_ready:
    case constant::unknown: return "restart the machine, or see what the driver says: `sudo dmesg`";
    default: break;
  }
  switch (code) {
    case QUERN_DRIVER_MISSING:
      return "install the NVIDIA driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install), or run on "
             "another backend";
    case QUERN_IO:
      return "remove that file, or take its folder out of LD_LIBRARY_PATH, so that the driver's own libcuda.so.1 is found";
    case QUERN_DRIVER_TOO_OLD: return "install NVIDIA driver 525 or newer";
    case QUERN_ARCH_NOT_BUILT: return "install the CUDA compiler library (pip: nvidia-cuda-nvrtc, Ubuntu: libnvrtc13) and make it findable";
    case QUERN_UNSUPPORTED: return "install quern-backend-vulkan, which serves older cards";
    case QUERN_NOT_FOUND: return "check that the card is visible: `nvidia-smi -L`, and CUDA_VISIBLE_DEVICES";
    case QUERN_OUT_OF_MEMORY: return "end programs that hold the card's memory, which `nvidia-smi` lists";
    case QUERN_INTERNAL: return "update the driver, and prove the card by `quern-conformance run --backend cuda`";
    default: return "";
  }
}

namespace {

template <class Handle>
Handle& object(Handle* handle, const char* what) {
  if (handle == nullptr) refuse(concat("the ", what, " is null"));
  if constexpr (std::is_same_v<Handle, quern_plugin>) handle->process.check();
  if constexpr (std::is_same_v<Handle, quern_device>) handle->plugin.process.check();
  if constexpr (std::is_same_v<Handle, quern_buffer> || std::is_same_v<Handle, quern_plan>) handle->device.plugin.process.check();
  if constexpr (std::is_same_v<Handle, quern_instance>) handle->owner.device.plugin.process.check();
  return *handle;
}

void check_index(std::uint32_t index, std::size_t count, const char* what) {
  if (index >= count) throw Failure(QUERN_NOT_FOUND, concat("cuda: ", what, " ", index, " is not there, there are ", count));
}

/// Throws where a card is older than the kernels can be.
void check_architecture(const CardFacts& card) {
  if (card.major * 10 + card.minor < 75)
    throw Failure(QUERN_UNSUPPORTED, concat("compute capability ", card.major, ".", card.minor, "; this plugin needs 7.5"));
}

/// What the option `memory` asks for. One without a backend's name goes to all of them, so Vulkan's value counts as unset.
bool plain_memory(std::string_view value) {
  if (value != "" && value != "plain" && value != "staged")
    refuse(concat("memory is '", std::string(value), "'; this plugin has plain (each buffer is taken from the driver), and vulkan has staged"));
  return value == "plain";
}

KernelOrigin origin_for(quern_plugin& plugin, const CardFacts& card, bool probe_only = false) {
  KernelOrigin origin;
  origin.major = card.major;
  origin.minor = card.minor;
  origin.shared_limit = card.shared_limit;
  origin.force_jit = forced_kernel(host_option(plugin.host, "force_kernel")) == "jit";
  origin.probe_only = probe_only;
  origin.pool = !plain_memory(host_option(plugin.host, "memory"));
  origin.library = forced_kernel(host_option(plugin.host, "force_kernel")) != "own";
  origin.threads = plugin.host.thread_count;
  origin.cache_directory = std::string(sdk::view(plugin.host.cache_directory));
  return origin;
}

quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
  return guarded(error, [&] {
    object(out, "place for the plugin") = nullptr;
    auto plugin = std::make_unique<quern_plugin>();
    plugin->host = sdk::read(host);
    forced_kernel(host_option(plugin->host, "force_kernel"));
    plain_memory(host_option(plugin->host, "memory"));
    *out = plugin.release();
  });
}

void destroy(quern_plugin* plugin) {
  // After a fork the driver's contexts are the parent's, and no call of it works: the handle is left as it is.
  if (plugin != nullptr && plugin->process.is_this_one()) delete plugin;
}

quern_status device_count(quern_plugin* plugin, std::uint32_t* count, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = object(plugin, "plugin");
    object(count, "place for the count") = 0;
    p.open_driver();
    *count = static_cast<std::uint32_t>(p.cards.size());
  });
}

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = object(plugin, "plugin");
    p.open_driver();
    check_index(index, p.cards.size(), "device");
    sdk::check(out);
    const CardFacts& card = p.cards[index];
    quern_device_info info = sdk::made<quern_device_info>();
    info.device_class = card.integrated ? QUERN_DEVICE_INTEGRATED : QUERN_DEVICE_DISCRETE;
    info.vendor_id = 0x10de;
    info.caps = QUERN_CAP_SYNCHRONOUS | QUERN_CAP_PROBE_NEEDS_CHILD;
    info.name = p.texts.keep(card.name);
    info.architecture = p.texts.keep(concat("sm_", card.major, card.minor));
    info.driver_have = p.texts.keep(concat("CUDA ", p.driver->version()));
    info.driver_need = p.texts.keep(concat("CUDA ", least_driver_text));
    info.pci_address = p.texts.keep(card.pci_address);
    std::memcpy(info.uuid, card.uuid.bytes, sizeof info.uuid);
    info.memory_alignment = 256;
    info.max_allocation = card.memory;
    info.heap_count = 1;
    info.numa_node = QUERN_NONE;
    sdk::write(out, info);
  });
}

quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = object(plugin, "plugin");
    object(out, "place for the device") = nullptr;
    p.open_driver();
    check_index(index, p.cards.size(), "device");
    const CardFacts& card = p.cards[index];
    check_architecture(card);
    *out = new quern_device(p, card, origin_for(p, card));
    p.devices.fetch_add(1);
  });
}

quern_status device_close(quern_device* device, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    if (const std::uint32_t children = d.children; children != 0)
      throw Failure(QUERN_BUSY, concat("device_close: ", children, " buffers or plans are alive"), 27);
    d.plugin.devices.fetch_sub(1);
    delete device;
  });
}

quern_status probe(quern_plugin* plugin, quern_probe_report* report, quern_error* error) {
  return guarded(error, [&] {
    quern_plugin& p = object(plugin, "plugin");
    quern_probe_report result = sdk::read(report);
    result.usable = result.reason_count = 0;
    const std::uint64_t step = result.reasons != nullptr ? result.reasons->header.struct_size : 0;
    const auto tell = [&](quern_status code, std::int64_t native_code, const std::string& text, std::uint32_t device) {
      if (result.reasons != nullptr && result.reason_count < result.reason_capacity) {
        auto* place = reinterpret_cast<quern_reason*>(reinterpret_cast<char*>(result.reasons) + result.reason_count * step);
        sdk::check(place);
        quern_reason reason = sdk::made<quern_reason>();
        reason.code = code;
        reason.reserved = device;
        reason.text = p.texts.keep(text);
        if (code == QUERN_DRIVER_MISSING) reason.missing = sdk::text_of("libcuda.so.1");
        if (code == QUERN_ARCH_NOT_BUILT || code == QUERN_DEPENDENCY_MISSING) reason.missing = sdk::text_of("libnvrtc.so.13");
        reason.remedy = p.texts.keep(remedy_for(code, native_code));
        sdk::write(place, reason);
      }
      ++result.reason_count;
    };
    try {
      p.open_driver();
      if (p.cards.empty()) tell(QUERN_NOT_FOUND, 0, "the driver sees no NVIDIA GPU", 0);
      for (std::uint32_t i = 0; i < p.cards.size(); ++i) {
        try {
          const CardFacts& card = p.cards[i];
          check_architecture(card);
          Gpu gpu(p.driver, card, origin_for(p, card, true), p.warnings());
          const Current current(gpu.driver(), gpu.context());
          const std::string fault = self_test(gpu);
          if (fault.empty()) ++result.usable;
          else tell(QUERN_INTERNAL, 0, concat(card.name, ": ", fault), i + 1);
        } catch (const Failure& failure) {
          tell(failure.code, failure.native_code, concat(p.cards[i].name, ": ", failure.text), i + 1);
        }
      }
    } catch (const Failure& failure) {
      tell(failure.code, failure.native_code, failure.text, 0);
    }
    sdk::write(report, result);
  });
}

quern_status heap_info(quern_device* device, std::uint32_t heap, quern_heap_info* out, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    check_index(heap, 1, "heap");
    sdk::check(out);
    const Current current(d.gpu.driver(), d.gpu.context());
    quern_heap_info info = sdk::made<quern_heap_info>();
    info.flags = QUERN_HEAP_DEVICE_LOCAL | QUERN_HEAP_POLLABLE;
    info.total_figure = info.used_figure = QUERN_FIGURE_EXACT;
    info.budget_figure = QUERN_FIGURE_ESTIMATE;  // other processes come and go
    info.total = d.gpu.facts().memory;
    info.budget = d.gpu.budget();
    info.used = d.gpu.used();
    sdk::write(out, info);
  });
}

quern_status memory_limit(quern_device* device, std::uint32_t heap, std::uint64_t bytes, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    check_index(heap, 1, "heap");
    d.gpu.set_limit(bytes);
  });
}

quern_status buffer_create(quern_device* device, const quern_buffer_options* options, std::uint64_t bytes,
                           quern_buffer** out, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    object(out, "place for the buffer") = nullptr;
    if (options != nullptr) {
      const quern_buffer_options o = sdk::read(options);
      check_index(o.heap, 1, "heap");
      sdk::check_flags(o.usage, QUERN_USAGE_WEIGHTS | QUERN_USAGE_STATE | QUERN_USAGE_SCRATCH | QUERN_USAGE_STAGING, "buffer usage");
    }
    const Current current(d.gpu.driver(), d.gpu.context());
    auto buffer = std::make_unique<quern_buffer>(quern_buffer{d, d.gpu, 0, bytes});
    buffer->memory = d.gpu.allocate(bytes, "a buffer");
    d.children.fetch_add(1);
    *out = buffer.release();
  });
}

/// Puts what waits in the mailbox where it belongs.
void deliver(Gpu& gpu) {
  if (gpu.mailbox().empty()) return;
  Launcher launcher(gpu, false);
  launcher.deliver();
  gpu.synchronize("delivering writes");
}

quern_status buffer_destroy(quern_buffer* buffer, quern_error* error) {
  return guarded(error, [&] {
    quern_buffer& b = object(buffer, "buffer");
    Gpu& gpu = b.device.gpu;
    const Current current(gpu.driver(), gpu.context());
    {
      const std::lock_guard lock(gpu.order());
      deliver(gpu);  // nothing may be written to it later
      gpu.mailbox().forget(b.memory, b.bytes);
      gpu.shadows().forget(b.memory, b.bytes);
      gpu.synchronize("freeing a buffer");
    }
    gpu.release(b.memory, b.bytes);
    b.device.children.fetch_sub(1);
    delete buffer;
  });
}

quern_status trim(quern_device* device, std::uint32_t level, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    const Current current(d.gpu.driver(), d.gpu.context());
    const std::lock_guard lock(d.gpu.order());
    d.gpu.trim(level);
  });
}

/// Runs end before the call that starts them returns: there are no queues and no fences [C18].
void require_synchronous(const quern_queue* queue, const quern_sync* sync) {
  if (queue != nullptr) refuse("a queue is named, and this plugin is synchronous: it has none", 18);
  if (sync == nullptr) return;
  const quern_sync s = sdk::read(sync);
  if (s.wait.count != 0 || s.signal.count != 0) unsupported("this plugin is synchronous: the host supplies fences");
}

DevicePointer place_of(quern_device& device, const quern_span* span, std::uint64_t bytes) {
  object(span, "span");
  if (span->buffer == nullptr) refuse("the span is in no buffer", 16);
  const quern_buffer& buffer = *span->buffer;
  if (&buffer.device != &device) refuse("the span is in a buffer of another device", 16);
  if (span->offset > buffer.bytes || bytes > buffer.bytes - span->offset || bytes > span->bytes)
    refuse(concat(bytes, " bytes at ", span->offset, " of a buffer of ", buffer.bytes, ", in a span of ", span->bytes), 16);
  return buffer.memory + span->offset;
}

quern_status upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from,
                    std::uint64_t bytes, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, sync);
    const DevicePointer target = place_of(d, to, bytes);
    if (bytes == 0) return;
    object(static_cast<const std::byte*>(from), "source");
    Gpu& gpu = d.gpu;
    const std::lock_guard lock(gpu.order());
    gpu.shadows().forget(target, bytes);
    if (gpu.mailbox().fits(bytes)) {
      gpu.mailbox().put(target, from, static_cast<std::uint32_t>(bytes));
      return;
    }
    const Current current(gpu.driver(), gpu.context());
    deliver(gpu);
    if (gpu.mailbox().fits(bytes)) {
      gpu.mailbox().put(target, from, static_cast<std::uint32_t>(bytes));
      return;
    }
    gpu.mailbox().forget(target, bytes);
    // Once `from` has been copied to pinned memory there is no wait: all that reads or writes the target later is behind it on the one
    // stream (also kernels that ask for weights before they wait for the kernel before: a run begins with the copy of a page), and
    // buffers are given back after a wait. What still goes wrong on the card is told by the next call that waits.
    if (gpu.staging().upload(target, from, bytes)) return;
    gpu.driver().check(gpu.driver().cuMemcpyHtoDAsync_v2(target, from, bytes, gpu.stream()), "upload");
    gpu.synchronize("upload");
  });
}

quern_status download(quern_device* device, quern_queue* queue, void* to, const quern_span* from,
                      std::uint64_t bytes, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, sync);
    const DevicePointer source = place_of(d, from, bytes);
    if (bytes == 0) return;
    object(static_cast<std::byte*>(to), "target");
    Gpu& gpu = d.gpu;
    const std::lock_guard lock(gpu.order());
    if (const void* mirrored = gpu.mailbox().mirrored(source, bytes); mirrored != nullptr) {
      std::memcpy(to, mirrored, bytes);
      return;
    }
    const Current current(gpu.driver(), gpu.context());
    deliver(gpu);
    gpu.driver().check(gpu.driver().cuMemcpyDtoHAsync_v2(to, source, bytes, gpu.stream()), "download");
    gpu.synchronize("download");
  });
}

quern_status copy(quern_device* device, quern_queue* queue, const quern_span* to, const quern_span* from,
                  std::uint64_t bytes, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, sync);
    const DevicePointer target = place_of(d, to, bytes), source = place_of(d, from, bytes);
    if (bytes == 0) return;
    if (target < source + bytes && source < target + bytes) throw Failure(QUERN_INVALID_ARGUMENT, "cuda: a copy within a buffer overlaps itself", 31);
    Gpu& gpu = d.gpu;
    const std::lock_guard lock(gpu.order());
    const Current current(gpu.driver(), gpu.context());
    deliver(gpu);
    gpu.mailbox().forget(target, bytes);
    gpu.shadows().forget(target, bytes);
    gpu.driver().check(gpu.driver().cuMemcpyDtoDAsync_v2(target, source, bytes, gpu.stream()), "copy");
    gpu.synchronize("copy");
  });
}

quern_status fill(quern_device* device, quern_queue* queue, const quern_span* to, std::uint32_t pattern,
                  std::uint64_t bytes, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, sync);
    const DevicePointer target = place_of(d, to, bytes);
    if (target % 4 != 0 || bytes % 4 != 0) refuse("fill writes whole 4-byte words");
    if (bytes == 0) return;
    Gpu& gpu = d.gpu;
    const std::lock_guard lock(gpu.order());
    const Current current(gpu.driver(), gpu.context());
    deliver(gpu);
    gpu.mailbox().forget(target, bytes);
    gpu.shadows().forget(target, bytes);
    gpu.driver().check(gpu.driver().cuMemsetD32Async(target, pattern, bytes / 4, gpu.stream()), "fill");
    gpu.synchronize("fill");
  });
}

quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options,
                     quern_answer* answers, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    if (options != nullptr) sdk::check_flags(sdk::read(options).flags, 0, "support flags");
    const Graph g(graph);
    const sdk::Answers list(answers, g.nodes.size());
    for (std::size_t n = 0; n < g.nodes.size(); ++n) {
      quern_answer answer = sdk::made<quern_answer>();
      answer.verdict = g.nodes[n].refusal.empty() ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
      answer.code = g.nodes[n].refusal.empty() ? QUERN_OK : QUERN_UNSUPPORTED;
      answer.text = d.plugin.texts.keep(g.nodes[n].refusal);
      if (g.nodes[n].refusal.empty()) answer.kernel = sdk::text_of(g.nodes[n].implementation->kernel);
      list.set(n, answer);
    }
  });
}

quern_status weights_plan(quern_device* device, const quern_array* graphs, std::uint64_t, quern_array* items, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    object(items, "place for the items") = {};
    object(graphs, "list of graphs");
    std::vector<std::unique_ptr<Graph>> read;
    for (std::uint64_t i = 0; i < graphs->count; ++i) {
      const quern_graph* graph = nullptr;
      std::memcpy(&graph, static_cast<const char*>(graphs->data) + i * graphs->stride, sizeof graph);
      read.push_back(std::make_unique<Graph>(graph));
    }
    auto list = plan_weights(read);
    *items = {list->items.data(), list->items.size(), sizeof(quern_weight_item)};
    if (list->items.empty()) return;
    const std::lock_guard lock(d.weights_lock);
    d.weights.push_back(std::move(list));
  });
}

quern_status weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item,
                          const quern_array* sources, const quern_array* destination, const quern_sync* sync,
                          quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, sync);
    const quern_weight_item i = sdk::read(item);
    const std::lock_guard lock(d.gpu.order());
    const Current current(d.gpu.driver(), d.gpu.context());
    deliver(d.gpu);
    pack_weight(sdk::view(i.layout_key), object(sources, "list of sources"), object(destination, "destination"), d.gpu);
  });
}

quern_status weights_release(quern_device* device, quern_array* items, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    object(items, "list of items");
    const std::lock_guard lock(d.weights_lock);
    if (std::erase_if(d.weights, [&](const auto& list) { return list->items.data() == items->data; }) == 0)
      refuse("these items were not planned by this device, or were released before");
    *items = {};
  });
}

quern_status compile(quern_device* device, const quern_graph* graph, quern_compile_options* options, quern_plan** out, quern_error* error) {
  std::vector<std::uint32_t> refused;
  const quern_status status = guarded(error, [&] {
    quern_device& d = object(device, "device");
    object(out, "place for the plan") = nullptr;
    const auto runs_alone = [](const std::string& forced) { return forced == "plain" || is_node_kernel(forced); };
    bool fuse = !runs_alone(forced_kernel(host_option(d.plugin.host, "force_kernel")));
    bool capture = true;
    std::string forced;
    if (options != nullptr) {
      const quern_compile_options o = sdk::read(options);
      if (o.communicators.count != 0) unsupported(sdk::refusal::collectives());
      if (o.effort > 2 || o.tuning > QUERN_TUNING_MEASURE || o.fusion > 1)
        unsupported(concat("compile options: effort ", o.effort, " (at most 2), tuning ", o.tuning, " (at most ", QUERN_TUNING_MEASURE,
                           "), fusion ", o.fusion, " (at most 1)"));
      forced = forced_kernel(sdk::view(o.force_kernel), QUERN_UNSUPPORTED);
      fuse = fuse && o.fusion == 1 && !runs_alone(forced);
      capture = o.effort > 0;
      if (o.progress != nullptr && o.progress(o.progress_context, 0.0) == 0)
        throw Failure(QUERN_CANCELLED, "compile was stopped by its caller");
    }
    auto plan = std::make_unique<quern_plan>(d, graph);
    plan->plan.capture = capture;
    plan->plan.compile(fuse, d.gpu.facts(), refused);
    if (forced.find(".cuda") != std::string::npos && !is_node_kernel(forced) && !plan->plan.has_kernel(forced))
      unsupported(concat("force_kernel is 'cuda:", forced, "', which this graph has no use for"));
    {  // steps of many rows have other bits with another library of products
      const std::lock_guard lock(d.gpu.order());
      const Current current(d.gpu.driver(), d.gpu.context());
      plan->plan.add_library(d.gpu);
    }
    d.children.fetch_add(1);
    *out = plan.release();
  });
  if (options != nullptr && QUERN_SDK_HAS(options, refused_count)) {
    options->refused_count = refused.size();
    if (options->refused_nodes != nullptr)
      std::copy_n(refused.begin(), std::min<std::uint64_t>(refused.size(), options->refused_capacity),
                  options->refused_nodes);
  }
  return status;
}

quern_status plan_info(quern_plan* plan, quern_plan_info* out, quern_error* error) {
  return guarded(error, [&] {
    const Plan& p = object(plan, "plan").plan;
    sdk::check(out);
    quern_plan_info info = sdk::made<quern_plan_info>();
    info.determinism = p.determinism;
    info.launches = static_cast<std::uint32_t>(p.infos.size());
    info.numerics_key = p.numerics_key;
    info.kernels = {p.infos.data(), p.infos.size(), sizeof(quern_kernel_info)};
    sdk::write(out, info);
  });
}

quern_status plan_destroy(quern_plan* plan, quern_error* error) {
  return guarded(error, [&] {
    quern_plan& p = object(plan, "plan");
    if (const std::uint32_t live = p.instances; live != 0)
      throw Failure(QUERN_BUSY, concat("plan_destroy: ", live, " instances are alive"), 27);
    p.device.children.fetch_sub(1);
    delete plan;
  });
}

quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out,
                             quern_instance_info* info, quern_error* error) {
  return guarded(error, [&] {
    quern_plan& p = object(plan, "plan");
    object(out, "place for the instance") = nullptr;
    auto instance = std::make_unique<quern_instance>(p);
    if (options != nullptr) {
      const quern_instance_options o = sdk::read(options);
      if (o.queue_kind > QUERN_QUEUE_COMPUTE) unsupported(concat("queue kind ", o.queue_kind, "; plans run on compute queues"));
      instance->instance.set_bounds(o.bounds);
    }
    if (info != nullptr) {
      sdk::check(info);
      quern_instance_info filled = sdk::made<quern_instance_info>();
      filled.scratch_bytes = p.plan.scratch_bytes();
      filled.scratch_alignment = 256;
      filled.private_bytes = counter_bytes;
      filled.max_in_flight = 1;
      sdk::write(info, filled);
    }
    p.instances.fetch_add(1);
    *out = instance.release();
  });
}

quern_status instance_destroy(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    quern_instance& i = object(instance, "instance");
    const std::lock_guard lock(i.owner.device.gpu.order());
    i.owner.instances.fetch_sub(1);
    delete instance;
  });
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, sync);
    const std::lock_guard lock(d.gpu.order());
    const Current current(d.gpu.driver(), d.gpu.context());
    const sdk::List<quern_prepare_entry> list(object(entries, "list of entries"), "entries");
    std::vector<Instance::Places> places;  // of all entries, before any is bound
    for (const quern_prepare_entry& entry : list) {
      quern_instance& i = object(entry.instance, "instance");
      if (&i.owner.device != &d) refuse("the instance belongs to another device");
      places.push_back(i.instance.check_bindings(sdk::List<quern_binding>(entry.bindings, "bindings"), entry.scratch));
    }
    for (std::uint64_t e = 0; e < list.size(); ++e) list[e].instance->instance.prepare(std::move(places[e]));
    d.gpu.staging().give_back();  // the weights are there
  });
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = object(device, "device");
    require_synchronous(queue, nullptr);
    const sdk::List<quern_run> list(object(runs, "list of runs"), "runs");
    for (const quern_run& run : list) object(run.instance, "instance").instance.begin();
    const std::lock_guard lock(d.gpu.order());
    const Current current(d.gpu.driver(), d.gpu.context());
    sdk::RunList<Instance> under_way(error);
    for (int pass = 0; pass < 2; ++pass)
      for (const quern_run& run : list) {
        quern_instance& i = object(run.instance, "instance");
        if (&i.owner.device != &d) refuse("the instance belongs to another device");
        if (run.sync != nullptr) require_synchronous(nullptr, run.sync);
        i.instance.check_run(run);
        if (pass == 1) under_way.start(i.instance, run);
      }
  });
}

quern_status run_cancel(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] { object(instance, "instance").instance.cancel(); });
}

quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_counters& c = object(instance, "instance").instance.counters();
    sdk::check(out);
    sdk::write(out, c);
  });
}

quern_plugin_api make_table() noexcept {
  quern_plugin_api api = sdk::make_api();
  api.id = sdk::text_of("cuda");
  api.version = sdk::text_of(QUERN_CUDA_VERSION);
  api.build = sdk::text_of(QUERN_CUDA_BUILD);
  api.create = create;
  api.destroy = destroy;
  api.probe = probe;
  api.device_count = device_count;
  api.device_info = device_info;
  api.device_open = device_open;
  api.device_close = device_close;
  api.heap_info = heap_info;
  api.memory_limit = memory_limit;
  api.buffer_create = buffer_create;
  api.buffer_destroy = buffer_destroy;
  api.trim = trim;
  api.upload = upload;
  api.download = download;
  api.copy = copy;
  api.fill = fill;
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
}  // namespace quern::cuda

QUERN_PLUGIN_ENTRY(quern::cuda::make_table())
