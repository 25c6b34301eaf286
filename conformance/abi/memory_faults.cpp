// Out of memory at the N-th allocation, for each N until the scenario completes: the status says so, nothing leaks, the next attempt
// works.
//
// Two ways in: the host's allocator refuses its N-th call, and malloc of the process does (where the plugin's own allocations are all
// that there are). A scenario is a whole life of a device.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"
#include "device_run/status_words.hpp"
#include "device_run/allocation_watch.hpp"

#include <algorithm>
#include <memory>
#include <new>

namespace quern::conformance::abi {
namespace {

constexpr std::uint64_t most_sites = 4000;  // more allocations than a small scenario has

/// A life as plain calls, so that nothing of the suite's own is made between them while memory is refused. Returns the first status that
/// is not OK; destroys what was made in any case.
struct Life {
  Life(ScriptContext& t, quern_host* given) : api(t.api()), host(given), index(t.device().index()) {
    x = graph.input({4, 4});
    w = graph.constant({3, 4});
    middle = graph.internal({4, 4});
    y = graph.output({4, 3});
    graph.copy(x, middle);
    graph.matmul(middle, w, y);
    whole = graph.get();
    answers.assign(2, made<quern_answer>(QUERN_TYPE_ANSWER));
    const Plan plan_now(t.device(), whole);  // which needs at least the scratch of a host with one thread
    room = 2 * Instance(t.device(), plan_now).info().scratch_bytes + 65536;
    scratch.reset(new (std::align_val_t{4096}) std::byte[room]);
  }

  quern_status go() {
    const quern_status status = run();
    if (instance != nullptr) api.instance_destroy(instance, nullptr);
    if (plan != nullptr) api.plan_destroy(plan, nullptr);
    for (quern_buffer*& b : buffers)
      if (b != nullptr) api.buffer_destroy(b, nullptr), b = nullptr;
    if (device != nullptr) api.device_close(device, nullptr);
    if (plugin != nullptr) api.destroy(plugin);
    instance = nullptr, plan = nullptr, device = nullptr, plugin = nullptr;
    return status;
  }

  quern_status run() {
    quern_status s = api.create(host, &plugin, nullptr);
    if (s != QUERN_OK) return s;
    if ((s = api.device_open(plugin, index, &device, nullptr)) != QUERN_OK) return s;
    for (quern_answer& a : answers) a = made<quern_answer>(QUERN_TYPE_ANSWER);
    if ((s = api.support(device, whole, nullptr, answers.data(), nullptr)) != QUERN_OK) return s;
    quern_compile_options options = compile_options();
    if ((s = api.compile(device, whole, &options, &plan, nullptr)) != QUERN_OK) return s;
    quern_instance_info info = made<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
    if ((s = api.instance_create(plan, nullptr, &instance, &info, nullptr)) != QUERN_OK) return s;
    if (info.scratch_bytes > room) return QUERN_INTERNAL;
    if ((s = place(info.scratch_bytes)) != QUERN_OK) return s;
    quern_binding bindings[3] = {};
    for (int i = 0; i < 3; ++i)
      bindings[i] = {{sizeof(quern_binding), QUERN_TYPE_BINDING, nullptr},
                     i == 0   ? x
                     : i == 1 ? w
                              : y,
                     0,
                     {&spans[i], 1, sizeof(quern_span)}};
    quern_prepare_entry entry = made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
    entry.instance = instance;
    entry.bindings = {bindings, 3, sizeof bindings[0]};
    entry.scratch = spans[3];
    const quern_array entries{&entry, 1, sizeof entry};
    if ((s = api.prepare(device, nullptr, &entries, nullptr, nullptr)) != QUERN_OK) return s;
    quern_run_status status = made<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    quern_run one = made<quern_run>(QUERN_TYPE_RUN);
    one.instance = instance;
    one.status = &status;
    const quern_array runs{&one, 1, sizeof one};
    if ((s = api.submit(device, nullptr, &runs, nullptr)) != QUERN_OK) return s;
    if (status.code != QUERN_OK) return status.code;
    if (api.download == nullptr) {
      std::copy_n(memory[2], 12, result);
      return QUERN_OK;
    }
    return api.download(device, nullptr, result, &spans[2], sizeof result, nullptr, nullptr);
  }

  /// Memory of x, w, y and scratch: the device's, or that of this struct.
  quern_status place(std::uint64_t scratch_bytes) {
    const std::uint64_t bytes[4] = {64, 48, 48, scratch_bytes};
    std::fill_n(memory[2], 12, -1.0f);
    for (int i = 0; i < 16; ++i) memory[0][i] = static_cast<float>(i - 3);
    for (int i = 0; i < 12; ++i) memory[1][i] = static_cast<float>(5 - i);
    if (api.buffer_create == nullptr) {
      for (int i = 0; i < 3; ++i) spans[i] = {nullptr, memory[i], 0, bytes[i]};
      spans[3] = {nullptr, scratch.get(), 0, scratch_bytes};
      return QUERN_OK;
    }
    for (int i = 0; i < 4; ++i) {
      quern_status s = api.buffer_create(device, nullptr, bytes[i], &buffers[i], nullptr);
      if (s != QUERN_OK) return s;
      spans[i] = {buffers[i], nullptr, 0, bytes[i]};
      if (i < 3 && (s = api.upload(device, nullptr, &spans[i], memory[i], bytes[i], nullptr, nullptr)) != QUERN_OK) return s;
    }
    return QUERN_OK;
  }

  std::vector<float> expected() const { return product({memory[0], memory[0] + 16}, {memory[1], memory[1] + 12}, 4, 3, 4); }
  std::vector<float> got() const { return {result, result + 12}; }

  const quern_plugin_api& api;
  quern_host* host;
  std::uint32_t index;
  Graph graph;
  std::uint32_t x = 0, w = 0, middle = 0, y = 0;
  const quern_graph* whole = nullptr;
  std::vector<quern_answer> answers;
  quern_plugin* plugin = nullptr;
  quern_device* device = nullptr;
  quern_plan* plan = nullptr;
  quern_instance* instance = nullptr;
  quern_buffer* buffers[4] = {};
  quern_span spans[4] = {};
  alignas(4096) float memory[3][1024] = {};
  struct Release {
    void operator()(std::byte* memory) const noexcept { ::operator delete[](memory, std::align_val_t{4096}); }
  };
  std::uint64_t room = 0;
  std::unique_ptr<std::byte, Release> scratch;
  float result[12] = {};
};

bool out_of_memory(quern_status s) { return s == QUERN_HOST_OUT_OF_MEMORY || s == QUERN_OUT_OF_MEMORY; }

void require_synchronous(ScriptContext& t) {
  if (!DeviceRef(t.device()).synchronous()) t.waive("no QUERN_CAP_SYNCHRONOUS", "the scenario has no queue; abi.faults.by_budget has one");
}

void host_allocator_refuses(ScriptContext& t) {
  require_synchronous(t);
  TestHost host;
  auto life = std::make_unique<Life>(t, host.table());
  host.fail_at(0);
  const quern_status whole = life->go();
  t.require(whole == QUERN_OK && life->got() == life->expected(),
            "the scenario completes with memory: expected OK, found " + status_words(whole));
  const std::uint64_t sites = host.allocations();
  if (sites == 0) t.waive("no allocation", "the plugin takes nothing from the host's allocator in this scenario");
  for (std::uint64_t n = 1; n <= sites; ++n) {
    host.fail_at(n);
    const quern_status status = life->go();
    t.check(host.refused(), "allocation " + std::to_string(n) + " is reached");
    t.check(out_of_memory(status), "the call that lacks allocation " + std::to_string(n) +
                                       " answers out of memory [C22]: expected HOST_OUT_OF_MEMORY or OUT_OF_MEMORY, found " +
                                       status_words(status));
    t.check(host.live_blocks() == 0 && host.fault().empty(), "and nothing leaks [C22] " + host.fault());
  }
  host.fail_at(0);
  t.check(life->go() == QUERN_OK && life->got() == life->expected(), "afterwards the scenario completes again [C22]");
}

void malloc_refuses(ScriptContext& t) {
  require_synchronous(t);
  if (!AllocationWatch::available()) t.waive("sanitizer", "malloc is the sanitizer's");
  if (t.device().info().device_class != QUERN_DEVICE_CPU && t.device().info().device_class != QUERN_DEVICE_OTHER)
    t.waive("the device's driver", "its own allocations cannot be told from the plugin's");
  TestHost host;
  auto life = std::make_unique<Life>(t, host.table());
  t.require(life->go() == QUERN_OK, "the scenario completes with memory");
  for (const bool and_after : {false, true}) {
    std::uint64_t n = 1, survived = 0;
    for (; n <= most_sites; ++n) {
      quern_status status = QUERN_OK;
      std::uint64_t refused = 0;
      {
        const AllocationWatch watch(n, and_after);
        status = life->go();
        refused = watch.refused();
      }
      if (refused == 0) {
        t.check(status == QUERN_OK, "with all its memory the scenario completes");
        break;
      }
      // A library may do without what it was refused: then the result must be right all the same.
      if (status == QUERN_OK) {
        ++survived;
        t.check(life->got() == life->expected(), "a life that does without allocation " + std::to_string(n) + " computes right");
      } else {
        t.check(out_of_memory(status), "without allocation " + std::to_string(n) +
                                           " the call answers out of memory [C22]: expected HOST_OUT_OF_MEMORY or OUT_OF_MEMORY, found " +
                                           status_words(status));
      }
      if (host.live_blocks() != 0) {
        t.check(false, "nothing leaks of the host's memory without allocation " + std::to_string(n));
        break;
      }
    }
    t.check(n <= most_sites, "the scenario completes within " + std::to_string(most_sites) + " allocations");
    t.check(n > 1 && survived + 1 < n, "some allocation was missed");
  }
  std::fill_n(life->result, 12, 0.0f);
  t.check(life->go() == QUERN_OK && life->got() == life->expected(), "afterwards the scenario completes again [C22]");
}

/// What a life leaves behind in malloc: later lives take as many blocks as earlier ones. A driver's own threads may take some at any time.
/// So the least of the last four lives is compared with the most of six earlier ones. Where it is more, all is done again: a driver may have compiled
/// behind some runs. What adds up from life to life is above all of them each time.
void lives_do_not_add_up(ScriptContext& t) {
  require_synchronous(t);
  TestHost host;
  auto life = std::make_unique<Life>(t, host.table());
  bool adds_up = true;
  for (int round = 0; round < 3 && adds_up; ++round) {
    std::uint64_t counts[12] = {};
    for (std::uint64_t& count : counts) {
      const AllocationWatch watch;
      t.require(life->go() == QUERN_OK, "a life completes");
      count = watch.count();
    }
    t.check(host.live_blocks() == 0 && host.fault().empty(), "twelve lives leave nothing of the host's memory [C9] " + host.fault());
    adds_up = *std::min_element(counts + 8, counts + 12) > *std::max_element(counts + 2, counts + 8);
  }
  if (AllocationWatch::available()) t.check(!adds_up, "a later life takes no more than an earlier one [C7]");
}

/// A device whose limit admits less than the scenario needs, raised step by step until it completes.
void by_budget(ScriptContext& t) {
  if (t.api().memory_limit == nullptr || t.api().buffer_create == nullptr)
    t.waive("memory_limit or buffer_create is null", "the memory is the host's");
  TestHost host;
  const OwnDevice own(t, host);
  const DeviceRef device = own.ref();
  quern_heap_info heap = made<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
  AbiError error;
  if (device.api().heap_info != nullptr) error.check(device.api().heap_info(device.handle(), 0, &heap, error.get()), "heap_info");
  bool refused_once = false;
  for (std::uint64_t room = 0; room <= (std::uint64_t{64} << 20); room = room == 0 ? 4096 : room * 4) {
    error.check(device.api().memory_limit(device.handle(), 0, heap.used + room, error.get()), "memory_limit");
    try {
      Queue queue(device);
      TwoNodes two(device, queue, 33);
      t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "within its limit the scenario computes [C23]");
      t.check(refused_once, "a limit of nothing was kept before [C23]");
      return;
    } catch (const AbiFailure& failure) {
      t.check(failure.status() == QUERN_OUT_OF_MEMORY,
              std::string("above its limit a device answers out of memory [C23], found ") + failure.what());
      refused_once = true;
    }
  }
  t.check(false, "the scenario completes within 64 MiB");
}

}  // namespace

void memory_faults_scripts(CaseSink& sink) {
  add(sink, "faults.host_allocator_refuses", host_allocator_refuses);
  add(sink, "faults.malloc_refuses", malloc_refuses);
  add(sink, "faults.lives_do_not_add_up", lives_do_not_add_up);
  add(sink, "faults.by_budget", by_budget);
}

}  // namespace quern::conformance::abi
