// The sample's device without the SDK's classes for devices: every function of the table by hand. For authors who want to see what
// quern/quern_device_plugin.hpp does for them, who write in another language, or whose device does not fit it. ../sample_plugin.cpp is
// where to start.
//
// It drives an invented device with memory of its own, which the host reaches only by upload, download and copy. Level 1 of the
// conformance suite asks for copy between any views, and for matmul of f32 and f16. It has these, and three ops in f32: rms_norm, add,
// and glu with silu. Every other op is answered with a reason. It is SYNCHRONOUS: submit returns when the run is done, and the host
// supplies queues and fences. Plain loops; a real backend replaces step 4.
//
// Step 1 says what the library is (before any code runs), step 9 exports the one function, the rest is in between. Steps 2 to 5 are in
// raw_device.hpp: the handles, what the device can do, and how it does it. The rules in brackets are those of CONTRACT.md. No function here
// prints, throws to the host, or keeps anything outside of its handles.
#include "raw_device.hpp"

// ---- Step 1: the note. The host reads it from the file: id, version, class of device, CPU features that the code
// needs before it can look for itself (none), and libraries that probe() will open (none). [C5]
#define SAMPLE_VERSION "1.0.0"
QUERN_PLUGIN_NOTE("sample_raw", SAMPLE_VERSION, QUERN_DEVICE_OTHER, 0, "");

// ---- Step 6: plugin, device and memory functions.
quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
  return guarded(error, [&] {
    const quern_host h = sdk::read(host);
    if (h.allocate == nullptr || h.release == nullptr || h.option == nullptr) {
      throw Failure(QUERN_INVALID_ARGUMENT, "create: the host gives no allocate, release or option");
    }
    object(out, "place for the plugin");
    *out = new quern_plugin{h, {}, {}};
  });
}

void destroy(quern_plugin* plugin) { delete plugin; }

quern_status device_count(quern_plugin* plugin, std::uint32_t* count, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    object(count, "place for the count") = 1;
  });
}

/// An option of the user: "memory", in bytes ("sample.memory" in the host's settings), so that a test can make the device
/// small.
std::uint64_t device_memory(const quern_host& host) {
  char text[32] = {};
  const std::uint64_t size = host.option(host.context, "memory", text, sizeof text - 1);
  const std::uint64_t bytes = size < sizeof text ? std::strtoull(text, nullptr, 10) : 0;
  return bytes == 0 ? default_memory : bytes;
}

void check_index(std::uint32_t index, const char* what) {
  if (index != 0) throw Failure(QUERN_NOT_FOUND, concat("sample: ", what, " ", index, " is not there, there is one"));
}

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    check_index(index, "device");
    sdk::check(out);
    quern_device_info info = sdk::made<quern_device_info>();
    info.device_class = QUERN_DEVICE_OTHER;
    info.caps = QUERN_CAP_SYNCHRONOUS;
    info.name = sdk::text_of("sample device");
    info.architecture = sdk::text_of("portable");
    info.memory_alignment = memory_alignment;
    info.max_allocation = device_memory(plugin->host);
    info.heap_count = 1;
    info.numa_node = QUERN_NONE;
    sdk::write(out, info);
  });
}

quern_status device_open(quern_plugin* plugin, std::uint32_t index, quern_device** out, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    check_index(index, "device");
    object(out, "place for the device");
    *out = new quern_device{*plugin, device_memory(plugin->host)};
  });
}

quern_status device_close(quern_device* device, quern_error* error) {
  return guarded(error, [&] {
    const std::uint32_t children = object(device, "device").children;
    if (children != 0) throw Failure(QUERN_BUSY, concat("device_close: ", children, " buffers or plans are alive"));
    delete device;
  });
}

/// Proves that the device computes: y = a + 2 b in its own memory, checked [C8].
quern_status probe(quern_plugin* plugin, quern_probe_report* report, quern_error* error) {
  return guarded(error, [&] {
    object(plugin, "plugin");
    quern_probe_report result = sdk::read(report);
    quern_device device{*plugin, device_memory(plugin->host)};
    const Block block(device, 3 * memory_alignment);
    float* a = reinterpret_cast<float*>(block.at(0));
    float* b = reinterpret_cast<float*>(block.at(memory_alignment));
    float* y = reinterpret_cast<float*>(block.at(2 * memory_alignment));
    for (int i = 0; i < 4; ++i) a[i] = static_cast<float>(i), b[i] = 0.5f;
    add_row(y, a, b, 1, 4, Step{QUERN_OP_ADD, {}, 0, QUERN_NONE, false, 0, 2});
    bool right = true;
    for (int i = 0; i < 4; ++i) right = right && y[i] == static_cast<float>(i + 1);
    result.usable = right ? 1 : 0;
    result.reason_count = right ? 0 : 1;
    if (!right && result.reasons != nullptr && result.reason_capacity > 0) {
      sdk::check(result.reasons);
      quern_reason reason = sdk::made<quern_reason>();
      reason.code = QUERN_INTERNAL;
      reason.text = sdk::text_of("the sample device added 4 numbers and got another sum");
      sdk::write(result.reasons, reason);
    }
    sdk::write(report, result);
  });
}

quern_status heap_info(quern_device* device, std::uint32_t heap, quern_heap_info* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_device& d = object(device, "device");
    check_index(heap, "heap");
    sdk::check(out);
    quern_heap_info info = sdk::made<quern_heap_info>();
    info.flags = QUERN_HEAP_DEVICE_LOCAL;
    info.total_figure = info.budget_figure = info.used_figure = QUERN_FIGURE_EXACT;
    info.total = d.total;
    info.budget = std::min(d.total, d.limit.load());
    info.used = d.used;
    sdk::write(out, info);
  });
}

quern_status memory_limit(quern_device* device, std::uint32_t heap, std::uint64_t bytes, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_index(heap, "heap");
    device->limit = bytes;
  });
}

quern_status buffer_create(quern_device* device, const quern_buffer_options* options, std::uint64_t bytes, quern_buffer** out,
                           quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    if (options != nullptr) {
      const quern_buffer_options o = sdk::read(options);
      check_index(o.heap, "heap");
      sdk::check_flags(o.usage, QUERN_USAGE_WEIGHTS | QUERN_USAGE_STATE | QUERN_USAGE_SCRATCH | QUERN_USAGE_STAGING, "usage");
    }
    object(out, "place for the buffer");
    *out = new quern_buffer{*device, bytes, std::make_shared<Block>(*device, bytes)};
    ++device->children;
  });
}

quern_status buffer_destroy(quern_buffer* buffer, quern_error* error) {
  return guarded(error, [&] {
    --object(buffer, "buffer").device.children;
    delete buffer;
  });
}

quern_status upload(quern_device* device, quern_queue* queue, const quern_span* to, const void* from, std::uint64_t bytes,
                    const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const Place place = place_of(*device, object(to, "span"), bytes);
    if (bytes != 0) std::memcpy(place.block->at(place.offset), &object(static_cast<const char*>(from), "source"), bytes);
  });
}

quern_status download(quern_device* device, quern_queue* queue, void* to, const quern_span* from, std::uint64_t bytes,
                      const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const Place place = place_of(*device, object(from, "span"), bytes);
    if (bytes != 0) std::memcpy(&object(static_cast<char*>(to), "target"), place.block->at(place.offset), bytes);
  });
}

/// Most devices copy in any order, so that a copy onto a part of itself has no meaning [C31].
void check_apart(const Place& target, const Place& source, std::uint64_t bytes) {
  if (target.block == source.block && target.offset < source.offset + bytes && source.offset < target.offset + bytes) {
    throw Failure(QUERN_INVALID_ARGUMENT,
                  concat("a copy of ", bytes, " bytes from ", source.offset, " to ", target.offset, " of one buffer overlaps itself"), 31);
  }
}

quern_status copy(quern_device* device, quern_queue* queue, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                  const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const Place target = place_of(*device, object(to, "span"), bytes);
    const Place source = place_of(*device, object(from, "span"), bytes);
    check_apart(target, source, bytes);
    if (bytes != 0) std::memcpy(target.block->at(target.offset), source.block->at(source.offset), bytes);
  });
}

// ---- Step 7: support and compile.
quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                     quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    if (options != nullptr) sdk::check_flags(sdk::read(options).flags, 0, "support options");
    const sdk::Graph g(graph);
    const sdk::Answers list(answers, g.nodes.size());
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      const std::string text = refuse(g, g.nodes[i]);
      quern_answer answer = sdk::made<quern_answer>();
      answer.verdict = text.empty() ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
      answer.group = QUERN_NONE;
      answer.code = text.empty() ? QUERN_OK : QUERN_UNSUPPORTED;
      if (text.empty()) {
        answer.kernel = sdk::text_of(kernel_name(g.nodes[i].fields.op));
      } else {
        answer.text = device->plugin.texts.keep(text);
      }
      list.set(i, answer);
    }
  });
}

Step step_of(const sdk::Graph& g, const sdk::Node& node) {
  const sdk::Attributes attributes(node.fields);
  Step step{node.fields.op, node.inputs, node.outputs[0], QUERN_NONE, false, 0, 0};
  if (node.fields.op == QUERN_OP_RMS_NORM) {
    step.epsilon = static_cast<float>(attributes.real(QUERN_KEY_EPSILON));
    step.factor = static_cast<float>(attributes.real(QUERN_KEY_WEIGHT_OFFSET));
  } else if (node.fields.op == QUERN_OP_ADD) {
    step.factor = static_cast<float>(attributes.real(QUERN_KEY_ALPHA));
  }
  if ((node.fields.uses & QUERN_NODE_USES_PREDICATE) != 0) {
    step.predicate = node.fields.predicate;
    step.predicate_per_row = !g.is_one(step.predicate);
  }
  return step;
}

bool fits_force(std::string_view wanted, std::uint32_t op) { return wanted.empty() || wanted == "rows" || wanted == kernel_name(op); }

quern_status compile(quern_device* device, const quern_graph* graph, quern_compile_options* options, quern_plan** out, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    object(out, "place for the plan");
    const quern_compile_options o = options == nullptr ? sdk::made<quern_compile_options>() : sdk::read(options);
    if (o.effort > 2 || o.tuning > QUERN_TUNING_MEASURE || o.fusion > 1) {
      throw Failure(QUERN_UNSUPPORTED, "compile: an effort, tuning or fusion that is newer than this plugin", 3);
    }
    if (o.communicators.count != 0) throw Failure(QUERN_UNSUPPORTED, sdk::refusal::collectives(), 19);
    auto plan = std::unique_ptr<quern_plan>(new quern_plan{*device, sdk::Graph(graph)});
    std::string first_reason;
    std::uint64_t refused = 0;
    for (std::size_t i = 0; i < plan->graph.nodes.size(); ++i) {
      const sdk::Node& node = plan->graph.nodes[i];
      std::string text = refuse(plan->graph, node);
      if (text.empty() && !fits_force(sdk::view(o.force_kernel), node.fields.op)) {
        text = concat("no kernel '", sdk::view(o.force_kernel), "' here; there is ", kernel_name(node.fields.op));
      }
      if (text.empty()) {
        plan->steps.push_back(step_of(plan->graph, node));
        quern_kernel_info kernel = sdk::made<quern_kernel_info>();
        kernel.name = sdk::text_of(kernel_name(node.fields.op));
        kernel.node = static_cast<std::uint32_t>(i);
        kernel.node_count = 1;
        plan->kernels.push_back(kernel);
        continue;
      }
      if (refused < o.refused_capacity && o.refused_nodes != nullptr) o.refused_nodes[refused] = static_cast<std::uint32_t>(i);
      if (refused++ == 0) first_reason = concat("node ", i, ": ", text);
    }
    if (options != nullptr) options->refused_count = refused;
    if (refused != 0) throw Failure(QUERN_UNSUPPORTED, first_reason, 10);
    if (o.progress != nullptr && o.progress(o.progress_context, 1.0) == 0) throw Failure(QUERN_CANCELLED, "compile was stopped");
    ++device->children;
    *out = plan.release();
  });
}

quern_status plan_info(quern_plan* plan, quern_plan_info* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_plan& p = object(plan, "plan");
    sdk::check(out);
    quern_plan_info info = sdk::made<quern_plan_info>();
    info.determinism = QUERN_DETERMINISM_INVARIANT;
    info.launches = static_cast<std::uint32_t>(p.steps.size());
    info.numerics_key = 0x73616d706c650001ull;  // one set of kernels; the last digits count its changes
    info.kernels = {p.kernels.data(), p.kernels.size(), sizeof(quern_kernel_info)};
    sdk::write(out, info);
  });
}

quern_status plan_destroy(quern_plan* plan, quern_error* error) {
  return guarded(error, [&] {
    const std::uint32_t instances = object(plan, "plan").instances;
    if (instances != 0) throw Failure(QUERN_BUSY, concat("plan_destroy: ", instances, " instances are alive"));
    --plan->device.children;
    delete plan;
  });
}

// ---- Step 8: instance, prepare, submit. Only instance_create and prepare may allocate [C12].
quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                             quern_error* error) {
  return guarded(error, [&] {
    const sdk::Graph& g = object(plan, "plan").graph;
    object(out, "place for the instance");
    sdk::check(info);
    auto instance = std::unique_ptr<quern_instance>(new quern_instance{*plan});
    instance->upper = g.widest();
    if (options != nullptr) g.apply_bounds(sdk::read(options).bounds, instance->upper);
    instance->now = instance->upper;
    instance->scratch_offset.assign(g.values.size(), 0);
    for (std::uint32_t v = 0; v < g.values.size(); ++v) {
      if (g.is_slot(v) || (g.values[v].uses & QUERN_VALUE_USES_ALIAS) != 0) continue;
      instance->scratch_offset[v] = instance->scratch_bytes;
      const std::uint64_t bytes = g.bytes(v, instance->upper);
      if (bytes > (1ull << 62) - instance->scratch_bytes) throw Failure(QUERN_DOES_NOT_FIT, "the scratch exceeds 62 bits");
      instance->scratch_bytes += (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
    }
    quern_instance_info i = sdk::made<quern_instance_info>();
    i.scratch_bytes = instance->scratch_bytes;
    i.scratch_alignment = memory_alignment;
    i.max_in_flight = 1;
    sdk::write(info, i);
    ++plan->instances;
    *out = instance.release();
  });
}

quern_status instance_destroy(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] {
    --object(instance, "instance").plan.instances;
    delete instance;
  });
}

/// Where each value lies, or a Failure. Changes nothing.
std::vector<Place> bind(const quern_instance& instance, const quern_prepare_entry& entry) {
  const sdk::Graph& g = instance.plan.graph;
  const quern_device& device = instance.plan.device;
  std::vector<Place> places(g.values.size());
  for (const quern_binding& b : sdk::List<quern_binding>(entry.bindings, "bindings")) {
    if (b.value >= g.values.size() || !g.is_slot(b.value)) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", b.value, " is no slot of this plan"), 16);
    }
    if (places[b.value].block) throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", b.value, " is bound twice"), 16);
    sdk::check_flags(b.flags, 0, "binding");
    const sdk::List<quern_span> spans(b.spans, "spans");
    if (spans.size() != 1) throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: ", spans.size(), " spans, one is needed"), 16);
    places[b.value] = place_of(device, spans[0], g.bytes(b.value, instance.upper));
    if (places[b.value].offset % memory_alignment != 0) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", b.value, " is not aligned to ", memory_alignment), 16);
    }
  }
  Place scratch;
  if (instance.scratch_bytes != 0) scratch = place_of(device, entry.scratch, instance.scratch_bytes);
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    const quern_value& value = g.values[v];
    if (places[v].block) continue;
    if ((value.uses & QUERN_VALUE_USES_ALIAS) != 0) {  // aliases follow what they are views of
      const std::uint64_t room = g.bytes(value.alias_of, instance.upper), need = g.bytes(v, instance.upper);
      if (value.alias_offset > room || need > room - value.alias_offset) {
        throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", v, " reaches beyond value ", value.alias_of), 16);
      }
      places[v] = {places[value.alias_of].block, places[value.alias_of].offset + value.alias_offset};
    } else if (!g.is_slot(v)) {
      places[v] = {scratch.block, scratch.offset + instance.scratch_offset[v]};
    } else {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("prepare: value ", v, " '", g.value_names[v], "' is not bound"), 16);
    }
  }
  return places;
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, sync);
    const sdk::List<quern_prepare_entry> list(object(entries, "entry list"), "prepare entries");
    std::vector<std::vector<Place>> places;  // all entries or none
    for (const quern_prepare_entry& entry : list) {
      const quern_instance& instance = object(entry.instance, "instance");
      if (&instance.plan.device != device) throw Failure(QUERN_INVALID_ARGUMENT, "prepare: an instance of another device");
      places.push_back(bind(instance, entry));
    }
    for (std::uint64_t i = 0; i < list.size(); ++i) {
      quern_instance& instance = *list[i].instance;
      instance.places = std::move(places[i]);
      instance.prepared = true;
      instance.counters = sdk::made<quern_counters>();
    }
  });
}

/// Everything of a run that can be refused, before anything of any run is done.
void check_run(const quern_device& device, const quern_run& run) {
  quern_instance& instance = object(run.instance, "instance");
  const sdk::Graph& g = instance.plan.graph;
  if (&instance.plan.device != &device) throw Failure(QUERN_INVALID_ARGUMENT, "submit: an instance of another device");
  if (!instance.prepared) throw Failure(QUERN_INVALID_ARGUMENT, "submit: the instance was not prepared", 12);
  sdk::check_flags(run.flags, 0, "run flags");
  check_synchronous(nullptr, run.sync);
  if (run.status != nullptr) sdk::check(run.status);
  instance.now = instance.upper;
  g.apply_bounds(run.bounds, instance.now);
  for (const quern_patch& patch : sdk::List<quern_patch>(run.patches, "patches")) {
    const bool known = patch.value < g.values.size();
    const std::uint32_t kind = known ? g.values[patch.value].kind : std::uint32_t{QUERN_VALUE_INTERNAL};
    if (kind != QUERN_VALUE_STATE && kind != QUERN_VALUE_INPUT) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("submit: a patch of value ", patch.value, ", no state or input"), 13);
    }
    const std::uint64_t room = g.bytes(patch.value, instance.upper);
    if (patch.offset > room || patch.bytes > room - patch.offset || (patch.data == nullptr && patch.bytes != 0)) {
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat("submit: a patch of ", patch.bytes, " bytes at ", patch.offset, " of value ", patch.value, ", which has ", room),
                    13);
    }
  }
}

void execute(quern_instance& instance, const quern_run& run, quern_run_status& status) {
  instance.cancel = false;
  instance.now = instance.upper;
  instance.plan.graph.apply_bounds(run.bounds, instance.now);
  for (const quern_patch& patch : sdk::List<quern_patch>(run.patches, "patches")) {
    const Place& place = instance.places[patch.value];
    if (patch.bytes != 0) std::memcpy(place.block->at(place.offset + patch.offset), patch.data, patch.bytes);
    instance.counters.host_copies += patch.bytes;
  }
  read_extents(instance);
  for (const Step& step : instance.plan.steps) {
    status.node = static_cast<std::uint32_t>(&step - instance.plan.steps.data());
    status.op = step.op;
    run_step(instance, step);
  }
}

/// A run that fails says so in its status; the others go on.
void run_one(const quern_run& run, quern_error* error) {
  quern_run_status status = sdk::made<quern_run_status>();
  status.node = status.op = QUERN_NONE;
  status.code = guarded(error, [&] {
    try {
      execute(*run.instance, run, status);
    } catch (const Failure& failure) {
      status.rule = failure.rule;
      throw;
    }
    status.node = status.op = QUERN_NONE;
  });
  ++run.instance->counters.runs;
  if (run.status != nullptr) sdk::write(run.status, status);
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  return guarded(error, [&] {
    object(device, "device");
    check_synchronous(queue, nullptr);
    const sdk::List<quern_run> list(object(runs, "run list"), "runs");
    for (const quern_run& run : list) check_run(*device, run);
    for (const quern_run& run : list) run_one(run, error);
  });
}

quern_status run_cancel(quern_instance* instance, quern_error* error) {
  return guarded(error, [&] { object(instance, "instance").cancel = true; });
}

quern_status counters(quern_instance* instance, quern_counters* out, quern_error* error) {
  return guarded(error, [&] {
    object(instance, "instance");
    sdk::check(out);
    sdk::write(out, instance->counters);
  });
}

// ---- Step 9: the table and the one exported function. What stays null the host does without [C24].
quern_plugin_api table() {
  quern_plugin_api api = sdk::make_api();
  api.id = sdk::text_of("sample_raw");
  api.version = sdk::text_of(SAMPLE_VERSION);
  api.build = sdk::text_of("sample " SAMPLE_VERSION);
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
  api.upload = upload;
  api.download = download;
  api.copy = copy;
  api.support = support;
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

QUERN_PLUGIN_ENTRY(table())
