// The process around a plugin: manners [C9], threads [C28], fork [C27], two hosts [C7].
#include "abi/library.hpp"
#include "abi/process_state.hpp"
#include "abi/scripts.hpp"
#include "abi/simple.hpp"
#include "abi/temporary.hpp"

#include <dlfcn.h>
#include <fenv.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <cstring>
#include <thread>

namespace quern::conformance::abi {
namespace {

/// A whole life: create, probe, open, ask, compile, prepare, run, fail, destroy.
void live(ScriptContext& t, TestHost& host, std::int64_t rows = 40) {
  const OwnDevice own(t, host);
  const DeviceRef device = own.ref();
  if (t.api().probe != nullptr) {
    quern_probe_report report = made<quern_probe_report>(QUERN_TYPE_PROBE_REPORT);
    AbiError error;
    error.check(t.api().probe(own.plugin(), &report, error.get()), "probe");
  }
  Queue queue(device);
  TwoNodes two(device, queue, rows);
  t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "a plugin with a host of its own computes");
  Graph bad;
  bad.node(3999, {}, {});
  quern_plan* plan = nullptr;
  t.check(device.api().compile(device.handle(), bad.get(), nullptr, &plan, nullptr) != QUERN_OK, "and refuses");
}

void leaves_the_process_as_it_was(ScriptContext& t) {
  TemporaryDirectory cache;
  {
    TestHost warm;
    live(t, warm);
  }  // what libc makes once for all is made
  const ProcessState before = ProcessState::now();
  TestHost host(3);
  host.table()->cache_directory = {cache.path().data(), cache.path().size()};
  live(t, host);
  const std::string changed = before.difference(ProcessState::now());
  t.check(changed.empty(), "a whole life of a plugin leaves the process as it was [C9]: " + changed);
  t.check(host.live_blocks() == 0 && host.fault().empty(), "and gives all of the host's memory back [C9] " + host.fault());
}

void keeps_the_callers_floating_point_mode(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes two(device, queue);
  AbiError error;
#if defined(__x86_64__)
  const unsigned usual = _mm_getcsr();
  for (const unsigned mode : {0x1f80u, 0x9fc0u, 0x5f80u}) {  // usual; denormals flushed; rounding up
    _mm_setcsr(mode);
    const Plan plan(device, two.graph.get());
    const quern_run_status status = two.ready.go();
    const unsigned left = _mm_getcsr();
    _mm_setcsr(usual);
    t.check(status.code == QUERN_OK, "a run under another floating-point mode of the caller ends well [C9]");
    t.check((left & 0xffc0u) == (mode & 0xffc0u), "and the mode is left as found [C9]");  // the low six bits are sticky flags
  }
#endif
  for (const int rounding : {FE_UPWARD, FE_TONEAREST}) {
    ::fesetround(rounding);
    const quern_run_status status = two.ready.go();
    const int left = ::fegetround();
    ::fesetround(FE_TONEAREST);
    t.check(status.code == QUERN_OK && left == rounding, "the rounding mode is left as found [C9]");
  }
  two.at_z.write(std::vector<float>(15, -1));
  t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "and the next run computes as ever [C9]");
}

void writes_below_its_cache_directory_only(ScriptContext& t) {
  TemporaryDirectory here;
  char before[4096];
  t.require(::getcwd(before, sizeof before) != nullptr && ::chdir(here.path().c_str()) == 0, "the suite goes to an empty directory");
  TestHost host;  // no cache directory: nothing may be written at all
  live(t, host);
  const std::size_t files = here.files();
  t.require(::chdir(before) == 0, "and back");
  t.check(files == 0, "without a cache directory no file is written to the working directory [C9]");
}

void a_bad_host_is_refused(ScriptContext& t) {
  const quern_plugin_api& api = t.api();
  quern_plugin* plugin = nullptr;
  AbiError error;
  TestHost host;
  host.table()->header.struct_size = 8;
  check_refused(t, api.create(host.table(), &plugin, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a host table that is too small is refused [C9]");
  TestHost odd;
  odd.options["force_kernel"] = std::string(100000, 'x');  // an option that no one can mean
  const quern_status status = api.create(odd.table(), &plugin, error.get());
  t.check(status == QUERN_OK || !error.text().empty(), "an absurd option is refused with words, or not looked at [C9]");
  if (status == QUERN_OK) api.destroy(plugin);
  t.check(odd.live_blocks() == 0, "a create that fails leaves nothing [C9]");
}

void two_hosts_share_nothing(ScriptContext& t) {
  TestHost first, second(2);
  const OwnDevice a(t, first);
  const std::uint64_t asked = first.options_asked(), taken = first.live_bytes();
  {
    const OwnDevice b(t, second);
    t.check(first.options_asked() == asked && first.live_bytes() == taken, "a second handle asks nothing of the first one's host [C7]");
    Queue queue_a(a.ref()), queue_b(b.ref());
    TwoNodes on_a(a.ref(), queue_a), on_b(b.ref(), queue_b, 9);
    for (int i = 0; i < 4; ++i) {
      t.check(on_a.ready.go().code == QUERN_OK && on_b.ready.go().code == QUERN_OK, "two handles run by turns [C7]");
      t.check(on_a.at_z.read() == on_a.expected() && on_b.at_z.read() == on_b.expected(), "each computes its own [C7]");
    }
  }
  t.check(second.live_blocks() == 0 && second.fault().empty(), "the second handle gave all back [C7] " + second.fault());
  Queue queue(a.ref());
  TwoNodes again(a.ref(), queue);
  t.check(again.ready.go().code == QUERN_OK && again.at_z.read() == again.expected(), "the first goes on when the second is gone [C7]");
}

void two_loaders_open_one_plugin(ScriptContext& t) {
  const std::string path = t.device().plugin()->path();
  if (path.starts_with("registered:")) t.waive("no library", "the plugin is registered by pointer");
  loader::Settings settings;
  settings.backends.set({t.device().plugin()->id()}, "the suite");
  settings.device.set(t.device().label(), "the suite");
  settings.backend_path.set({path.substr(0, path.rfind('/'))}, "the suite");
  settings.probe_in_process.set(true, "the suite");
  loader::Loader second(settings);
  const std::shared_ptr<loader::Device> device = second.open(second.require().front());
  t.check(device->plugin()->handle() != t.device().plugin()->handle(), "a second loader makes a handle of its own [C7]");
  Queue queue{DeviceRef(*device)}, ours{DeviceRef(t.device())};
  TwoNodes there(*device, queue), here(t.device(), ours);
  t.check(there.ready.go().code == QUERN_OK && here.ready.go().code == QUERN_OK, "both run [C7]");
  t.check(there.at_z.read() == there.expected() && here.at_z.read() == here.expected(), "both compute [C7]");
}

void handles_of_another_device_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  TestHost host;
  const OwnDevice own(t, host);
  quern_run run = one.ready.run();
  const quern_array runs{&run, 1, sizeof run};
  Queue other(own.ref());
  AbiError error;
  check_refused(t, t.api().submit(own.device(), other.get(), &runs, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "an instance of another handle's device is refused [C7]");
  t.check(one.at_y.read() == std::vector<float>(4, -1), "and does not run [C7]");
}

void registered_by_pointer(ScriptContext& t) {
  const quern_plugin_query_fn query = query_of(t);
  TemporaryDirectory empty;
  loader::Settings settings;
  settings.registered = {query};
  settings.backend_path.set({empty.path()}, "the suite");
  settings.device.set(t.device().label(), "the suite");
  loader::Loader found(settings);
  const std::shared_ptr<loader::Device> device = found.open(found.require().front());
  t.check(device->plugin()->path().starts_with("registered:"), "a table may be registered by pointer, without a file [C7]");
  Queue queue{DeviceRef(*device)};
  OneCopy one(*device, queue);
  t.check(one.ready.go().code == QUERN_OK && one.at_y.read() == counting(4, 1), "and runs [C7]");
}

void compiles_in_parallel(ScriptContext& t) {
  const DeviceRef device = t.device();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      try {
        Queue queue(device);
        for (int round = 0; round < 12; ++round) {
          TwoNodes two(device, queue, 1 + i * 7 + round);
          wrong += two.ready.go().code != QUERN_OK || two.at_z.read() != two.expected();
        }
      } catch (const std::exception&) { ++wrong; }
    });
  for (std::thread& thread : threads) thread.join();
  t.check(wrong == 0, "four threads ask, compile, prepare, run and destroy at once, each on its own queue [C28]");
}

void submits_from_several_threads(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  TwoNodes shared(device, queue, 64);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      try {
        Queue own(device);
        const std::vector<float> xs = counting(256, static_cast<float>(i * 3));
        const std::vector<float> expected = product(xs, counting(12, -5), 64, 3, 4);
        Floats at_x(device, own, xs), at_z(device, own, std::vector<float>(192, -1));
        Ready ready(device, own, shared.plan, {{shared.x, at_x.span()}, {shared.b, shared.at_b.span()}, {shared.z, at_z.span()}});
        for (int round = 0; round < 100; ++round) wrong += ready.go().code != QUERN_OK || at_z.read() != expected;
      } catch (const std::exception&) { ++wrong; }
    });
  for (std::thread& thread : threads) thread.join();
  t.check(wrong == 0, "four instances of one plan run at once from four threads [C28]");
}

/// One instance is one thread's at a time; the plugin need not find a breach, but null and foreign objects it must.
void breaches_that_can_be_seen_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  AbiError error;
  quern_run run = made<quern_run>(QUERN_TYPE_RUN);  // no instance
  const quern_array runs{&run, 1, sizeof run};
  Queue queue(device);
  check_refused(t, device.api().submit(device.handle(), queue.get(), &runs, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "a run without an instance is refused [C28]");
  quern_prepare_entry entry = made<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
  const quern_array entries{&entry, 1, sizeof entry};
  check_refused(t, device.api().prepare(device.handle(), queue.get(), &entries, nullptr, error.get()), error, {QUERN_INVALID_ARGUMENT},
                "an entry without an instance is refused [C28]");
}

/// Runs `body` in a child after fork; its exit code, 255 for a signal or 20 s.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  for (int i = 0; i < 2000; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    ::usleep(10000);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return 255;
}

void only_destroy_works_after_fork(ScriptContext& t) {
  TestHost host(2);
  const OwnDevice own(t, host);
  const DeviceRef device = own.ref();
  Queue queue(device);
  OneCopy one(device, queue);
  const quern_run run = one.ready.run();
  const quern_array runs{&run, 1, sizeof run};
  const int code = in_child([&] {
    const quern_plugin_api& api = t.api();
    std::uint32_t count = 0;
    quern_plan* plan = nullptr;
    quern_answer answer = made<quern_answer>(QUERN_TYPE_ANSWER);
    if (api.device_count(own.plugin(), &count, nullptr) != QUERN_FORKED) return 1;
    if (api.compile(own.device(), one.graph.get(), nullptr, &plan, nullptr) != QUERN_FORKED) return 2;
    if (api.support(own.device(), one.graph.get(), nullptr, &answer, nullptr) != QUERN_FORKED) return 3;
    if (api.submit(own.device(), queue.get(), &runs, nullptr) != QUERN_FORKED) return 4;
    AbiError error;
    if (api.device_open(own.plugin(), 0, nullptr, error.get()) != QUERN_FORKED || error.text().empty()) return 5;
    api.destroy(own.plugin());
    return 0;
  });
  t.check(code != 1 && code != 2 && code != 3 && code != 4 && code != 5,
          "in a child after fork calls answer QUERN_FORKED [C27], not so call " + std::to_string(code));
  t.check(code == 0, "and destroy works there [C27], the child ended with " + std::to_string(code));
  t.check(one.ready.go().code == QUERN_OK && one.at_y.read() == counting(4, 1), "the parent goes on [C27]");
}

void a_child_makes_its_own(ScriptContext& t) {
  if (t.device().info().device_class != QUERN_DEVICE_CPU && t.device().info().device_class != QUERN_DEVICE_OTHER)
    t.waive("the device's driver", "a driver that was opened before fork cannot be opened again in the child");
  const DeviceRef device = t.device();
  Queue queue(device);
  OneCopy one(device, queue);
  const int code = in_child([&] {
    try {
      TestHost host;
      const OwnDevice own(t, host);
      Queue there(own.ref());
      OneCopy copy(own.ref(), there);
      return copy.ready.go().code == QUERN_OK && copy.at_y.read() == counting(4, 1) ? 0 : 1;
    } catch (const std::exception&) { return 2; }
  });
  t.check(code == 0, "a child after fork creates the plugin again [C27], it ended with " + std::to_string(code));
}

void unloading(ScriptContext& t) {
  if ((t.device().info().caps & QUERN_CAP_UNLOADABLE) == 0) t.waive("no QUERN_CAP_UNLOADABLE", "the library stays loaded");
  const std::string path = t.device().plugin()->path();
  const int code = in_child([&] {
    void* library = ::dlopen(path.c_str(), RTLD_NOW);
    if (library == nullptr) return 1;
    {
      TestHost host;
      const OwnDevice own(t, host);
    }
    while (::dlclose(library) == 0) {
      library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
      if (library == nullptr) return 0;
    }
    return 2;
  });
  t.check(code == 0, "a library that says UNLOADABLE unloads [C27], the child ended with " + std::to_string(code));
}

}  // namespace

void process_scripts(CaseSink& sink) {
  add(sink, "manners.leaves_the_process_as_it_was", leaves_the_process_as_it_was);
  add(sink, "manners.keeps_the_floating_point_mode", keeps_the_callers_floating_point_mode);
  add(sink, "manners.writes_below_its_cache_directory_only", writes_below_its_cache_directory_only);
  add(sink, "manners.a_bad_host_is_refused", a_bad_host_is_refused);
  add(sink, "manners.unloading", unloading);
  add(sink, "hosts.two_share_nothing", two_hosts_share_nothing);
  add(sink, "hosts.two_loaders_open_one_plugin", two_loaders_open_one_plugin);
  add(sink, "hosts.handles_of_another_device_are_refused", handles_of_another_device_are_refused);
  add(sink, "hosts.registered_by_pointer", registered_by_pointer);
  add(sink, "threads.compile_in_parallel", compiles_in_parallel);
  add(sink, "threads.submit_from_several", submits_from_several_threads);
  add(sink, "threads.breaches_that_can_be_seen_are_refused", breaches_that_can_be_seen_are_refused);
  add(sink, "fork.only_destroy_works_in_the_child", only_destroy_works_after_fork);
  add(sink, "fork.a_child_makes_its_own", a_child_makes_its_own);
}

}  // namespace quern::conformance::abi
