// A libcuda.so.1 for tests, with the behaviour of one machine: FAKE_FAULT says what is wrong there, nothing by default.
//
// The real CUDA plugin loads it as it would NVIDIA's. Device memory is host memory, streams do at once what they are told, events are
// reached when they are recorded, and the kernels of the probe's self-test and of the ABI's scripts (copies, exact products, packing) are computed here in C++ by name; every
// other kernel is refused. Of block formats but q8_0 a product takes numbers made of their bytes: the same for the same bytes. Cards are two of compute capability
// FAKE_MAJOR.FAKE_MINOR with FAKE_MULTIPROCESSORS multiprocessors. CUDA_VISIBLE_DEVICES="" hides them, as in the real driver.
//
// With FAKE_ANY_KERNEL the other kernels are taken and do nothing, and streams can be captured. FAKE_LOG names a file that gets a line for
// every launch, allocation, copy and wait: what a whole step asks of the driver. FAKE_REFUSED names a function of graphs and what it answers.
// FAKE_REFUSED_KERNEL names a kernel whose launches fail; "unpack_rows@2" fails from the second on. While there is a file of the name that FAKE_PAUSE
// has, waits for a stream do not end and no event is reached. From the time that the environment has QUERN_TEST_OPENED, which a program sets behind the self-test, the kernels that
// are computed here are not any more. With FAKE_LATE each stream works as late as it may: when something waits for it or asks for an event of it the second
// time. So what the host reads, fills again or gives back before it has waited is seen, and so is what relies on the order of two streams. Memory
// that is not pinned is read at once by a copy from it, and a copy to it waits for the stream, as with a driver.
#include "cubin.hpp"
#include "driver.hpp"
#include "fake_kernels.hpp"

#include "quern/quern_dtypes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#define FAKE_NONE 0
#define FAKE_NO_DEVICE 1           // the driver starts, and there is no card
#define FAKE_DRIVER_TOO_OLD 2      // CUDA 11.8
#define FAKE_SYMBOL_MISSING 3      // says CUDA 12.0, and lacks cuLaunchKernelEx
#define FAKE_OUT_OF_MEMORY 4       // other processes have all memory of the cards
#define FAKE_PROBE_CRASHES 5       // in making a context
#define FAKE_PROBE_HANGS 6         // in making a context
#define FAKE_WRONG_RESULTS 7       // kernels leave their outputs as they were
#define FAKE_DRIVER_MISMATCH 8     // the driver in the kernel is another one than this library
#define FAKE_UNKNOWN_ERROR 9       // as after a suspend
#define FAKE_SECOND_CARD_BUSY 10   // another process has it for itself
#define FAKE_START_CRASHES 11      // in cuInit
#define FAKE_CONSTRUCTOR_HANGS 12  // while the library is loaded

#ifndef FAKE_FAULT
#define FAKE_FAULT FAKE_NONE
#endif
#ifndef FAKE_ANY_KERNEL
#define FAKE_ANY_KERNEL 0
#endif
#ifndef FAKE_MAJOR
#define FAKE_MAJOR 9
#define FAKE_MINOR 0
#endif

namespace {

using namespace quern::cuda;

constexpr int cards = 2;
constexpr std::size_t card_memory = std::size_t{8} << 30;
std::atomic<std::size_t> created{0};  // bytes of memory that can be mapped
constexpr Result driver_mismatch = constant::driver_mismatch, device_unavailable = constant::device_unavailable, not_supported = 801,
                 unknown = constant::unknown, invalid_value = 1;

bool is(int fault) { return FAKE_FAULT == fault; }

[[noreturn]] void hang() {
  for (;;) ::pause();
}

/// A kernel of a module, one for all that ask for it. What is too much for it is refused, as a driver refuses it.
struct Loaded {
  std::string name;
  const Kernel& kernel;
  KernelLimits limits;
  std::uint64_t dynamic_shared;  // bytes at most
};
constexpr std::uint64_t usual_shared = 48 << 10;
/// FAKE_SHARED, else what an H100 lets a block have: bytes of shared memory.
[[maybe_unused]] std::uint64_t most_shared() {
  static const char* const text = std::getenv("FAKE_SHARED");
  return text == nullptr ? 232448 : std::strtoull(text, nullptr, 10);
}

Result load(const Kernel& kernel, const char* image, const char* name, Function* function) {
  static std::map<std::pair<const char*, std::string>, Loaded> loaded;
  const KernelLimits limits = limits_of(image, name);
  const auto [place, is_new] = loaded.try_emplace({image, name}, Loaded{name, kernel, limits, usual_shared - limits.fixed_shared});
  *function = reinterpret_cast<Function>(&place->second);
  return constant::success;
}

/// A line of the log of what was asked.
void note(const char* what, unsigned long long bytes = 0, const char* name = "") {
  static std::FILE* const log = std::getenv("FAKE_LOG") == nullptr ? nullptr : std::fopen(std::getenv("FAKE_LOG"), "ae");
  if (log == nullptr) return;
  std::fprintf(log, "%s %llu %s\n", what, bytes, name);
  std::fflush(log);
}

/// FAKE_MULTIPROCESSORS, else 2: some launches depend on it.
int multiprocessors() {
  const char* const text = std::getenv("FAKE_MULTIPROCESSORS");
  return text == nullptr ? 2 : std::atoi(text);
}

/// How many contexts this thread has made current: memory is given back inside one.
thread_local int contexts = 0;

/// What FAKE_REFUSED lets a function of graphs, of events or of pinned memory answer: "cuGraphLaunch=2@5" is 2 from the fifth call on, which do nothing. "captured" is a launch
/// while a stream is captured.
Result refused(const char* function) {
  const char* const fault = std::getenv("FAKE_REFUSED");
  static std::atomic<int> calls{0};
  char name[64] = "";
  int answer = 0, from = 1;
  if (fault == nullptr || std::sscanf(fault, "%63[^=]=%d@%d", name, &answer, &from) < 2 || std::string_view(function) != name)
    return constant::success;
  if (++calls < from) return constant::success;
  note("refused_call", 0, function);
  return answer;
}

/// Whether FAKE_REFUSED_KERNEL refuses this launch.
[[maybe_unused]] bool is_refused(std::string_view kernel) {
  static const char* const wanted = std::getenv("FAKE_REFUSED_KERNEL");
  static std::atomic<int> launches{0};
  if (wanted == nullptr) return false;
  const std::string_view words = wanted, name = words.substr(0, words.find('@'));
  return kernel == name && ++launches >= std::atoi(wanted + std::min(name.size() + 1, words.size()));
}

/// What a capture holds, and a graph of it runs.
using Steps = std::vector<std::function<void()>>;
thread_local Steps* capturing = nullptr;

/// What was asked of a stream and is not done yet.
struct FakeStream {
  std::deque<std::function<void()>> pending;
  std::uint64_t done = 0;
  std::uint64_t asked() const { return done + pending.size(); }
  void finish(std::uint64_t count = UINT64_MAX) {
    for (; !pending.empty() && done < count; ++done) {
      pending.front()();
      pending.pop_front();
    }
  }
};
/// The point of a stream where it was recorded last; the stream may end before it.
struct FakeEvent {
  std::shared_ptr<FakeStream> stream;
  std::uint64_t point = 0;
  bool asked = false;  // since it was recorded
};

std::mutex streams_mutex;
std::map<Stream, std::shared_ptr<FakeStream>>& streams() {  // by handle; null is the one that nobody made
  static std::map<Stream, std::shared_ptr<FakeStream>> all{{nullptr, std::make_shared<FakeStream>()}};
  return all;
}
FakeStream& stream_of(Stream handle) { return *streams().at(handle); }
void finish_all() {
  const std::scoped_lock lock(streams_mutex);
  for (const auto& [handle, stream] : streams()) stream->finish();
}

bool is_late() { return std::getenv("FAKE_LATE") != nullptr; }

/// Done now, as late as may be, or when the graph runs that is being captured.
template <class Step>
void act(Stream stream, const Step& step) {  // takes no memory where it is done now
  if (capturing != nullptr) return capturing->push_back(step);
  const std::scoped_lock lock(streams_mutex);
  FakeStream& on = stream_of(stream);
  if (is_late()) return on.pending.push_back(step);
  on.finish();
  step();
}

/// Pinned memory, by its begin.
std::map<const char*, std::size_t>& pinned() {
  static std::map<const char*, std::size_t> ranges;
  return ranges;
}
bool is_pinned(const void* memory) {
  const std::scoped_lock lock(streams_mutex);
  const auto* const at = static_cast<const char*>(memory);
  const auto next = pinned().upper_bound(at);
  return next != pinned().begin() && at < std::prev(next)->first + std::prev(next)->second;
}

/// While there is the file, nothing on the card ends.
bool is_held() {
  static const char* const pause = std::getenv("FAKE_PAUSE");
  if (pause == nullptr || access(pause, F_OK) != 0) return false;
  std::ofstream(std::string(pause) + ".held").put('\n');
  return true;
}

/// Parameters live as long as the call that launches.
[[maybe_unused]] void launch(const Kernel& kernel, const void* params, Stream stream) {  // not of a driver without cuLaunchKernelEx
  const bool delivers = kernel.compute == deliver || kernel.compute == publish;
  if (!delivers && (capturing != nullptr || std::getenv("QUERN_TEST_OPENED") != nullptr)) return act(stream, [] {});
  if (!is_late() && capturing == nullptr) return act(stream, [&] { kernel.compute(params); });
  const auto* const bytes = static_cast<const char*>(params);
  act(stream, [compute = kernel.compute, copy = std::vector<char>(bytes, bytes + kernel.params_bytes)] { compute(copy.data()); });
}

void* some_handle() {
  static char place;
  return &place;
}

template <class Handle>
Result give(Handle* out) {
  *out = static_cast<Handle>(some_handle());
  return constant::success;
}

bool is_hidden() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible == '\0';
}

Result allocate(void** out, std::size_t bytes) {
  const std::size_t whole = (bytes + 255) / 256 * 256;
  *out = std::aligned_alloc(256, whole);  // as aligned as a card's memory
  if (*out == nullptr) return constant::out_of_memory;
  std::memset(*out, 0, whole);
  return constant::success;
}

[[maybe_unused, gnu::constructor]] void start() {
  streams();
  pinned();
  if (is(FAKE_CONSTRUCTOR_HANGS)) hang();
}

}  // namespace

extern "C" {
#define FAKE [[gnu::visibility("default")]] Result

FAKE cuInit(unsigned) {
  if (is(FAKE_START_CRASHES)) std::raise(SIGSEGV);
  if (is(FAKE_DRIVER_MISMATCH)) return driver_mismatch;
  if (is(FAKE_UNKNOWN_ERROR)) return unknown;
  return is(FAKE_NO_DEVICE) || is_hidden() ? constant::no_device : constant::success;
}
FAKE cuDriverGetVersion(int* version) {
  *version = is(FAKE_DRIVER_TOO_OLD) ? 11080 : is(FAKE_SYMBOL_MISSING) ? 12000 : 13000;
  return constant::success;
}
FAKE cuGetErrorName(Result result, const char** name) {
  *name = result == constant::out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == driver_mismatch       ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
          : result == device_unavailable    ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
          : result == not_supported         ? "CUDA_ERROR_NOT_SUPPORTED"
          : result == invalid_value         ? "CUDA_ERROR_INVALID_VALUE"
                                            : "CUDA_ERROR_UNKNOWN";
  return constant::success;
}
FAKE cuGetErrorString(Result result, const char** words) {
  *words = result == constant::out_of_memory ? "out of memory"
           : result == driver_mismatch       ? "system has unsupported display driver / cuda driver combination"
           : result == device_unavailable    ? "CUDA-capable device(s) is/are busy or unavailable"
           : result == not_supported         ? "operation not supported"
           : result == invalid_value         ? "invalid argument"
                                             : "unknown error";
  return constant::success;
}
FAKE cuDeviceGetCount(int* count) { return *count = cards, constant::success; }
FAKE cuDeviceGet(int* device, int index) { return *device = index, constant::success; }
FAKE cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake Card");  // one model: their speeds are not compared
  return constant::success;
}
FAKE cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  std::memset(uuid, 0x40 + device, sizeof *uuid);
  return constant::success;
}
FAKE cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = card_memory, constant::success; }
FAKE cuDeviceGetAttribute(int* value, int key, int device) {
  switch (key) {
    case constant::attribute_major: *value = FAKE_MAJOR; break;
    case constant::attribute_minor: *value = FAKE_MINOR; break;
    case constant::attribute_multiprocessors: *value = multiprocessors(); break;
    case constant::attribute_pci_bus: *value = 0x41 + device; break;
    case constant::attribute_addresses: *value = 1; break;
    case constant::attribute_shared_optin: *value = static_cast<int>(most_shared()); break;
    default: *value = 0;
  }
  return constant::success;
}
FAKE cuDevicePrimaryCtxRetain(Context* context, int device) {
  if (is(FAKE_PROBE_CRASHES)) std::raise(SIGSEGV);
  if (is(FAKE_PROBE_HANGS)) hang();
  if (is(FAKE_SECOND_CARD_BUSY) && device == 1) return device_unavailable;
  return give(context);
}
FAKE cuDevicePrimaryCtxRelease_v2(int) { return constant::success; }
FAKE cuCtxPushCurrent_v2(Context) {
  ++contexts;
  return constant::success;
}
FAKE cuCtxPopCurrent_v2(Context* context) {
  --contexts;
  return give(context);
}
FAKE cuCtxSynchronize() { return finish_all(), constant::success; }
FAKE cuModuleLoadData(Module* module,
                      const void* image) {  // cubins live as long as the plugin; what fake_nvrtc makes in their place does not
  static char no_cubin[SELFMAG] = {};
  const bool is_cubin = std::strncmp(static_cast<const char*>(image), ELFMAG, SELFMAG) == 0;
  *module = reinterpret_cast<Module>(is_cubin ? const_cast<void*>(image) : no_cubin);
  return constant::success;
}
FAKE cuModuleUnload(Module) { return constant::success; }
FAKE cuModuleGetFunction(Function* function, Module module, const char* name) {
  const char* image = reinterpret_cast<const char*>(module);
  for (const Kernel& kernel : kernels)
    if (std::string_view(name).starts_with(kernel.prefix)) return load(kernel, image, name, function);
  if (!FAKE_ANY_KERNEL) return not_supported;
  static std::map<std::string, Kernel> others;
  const auto known = others.try_emplace(name, Kernel{"", do_nothing, 0}).first;
  known->second.prefix = known->first;
  return load(known->second, image, name, function);
}
FAKE cuFuncGetAttribute(int* value, int attribute, Function function) {
  if (attribute != constant::function_fixed_shared) return invalid_value;
  *value = static_cast<int>(reinterpret_cast<const Loaded*>(function)->limits.fixed_shared) +
           1024;  // with the system's own share, as a driver may
  return constant::success;
}
FAKE cuFuncSetAttribute(Function function, int attribute, int value) {
  Loaded& loaded = *reinterpret_cast<Loaded*>(function);
  if (attribute != constant::function_max_dynamic_shared) return constant::success;
  if (loaded.limits.fixed_shared + static_cast<std::uint64_t>(value) > most_shared()) return invalid_value;
  loaded.dynamic_shared = static_cast<std::uint64_t>(value);
  return constant::success;
}
FAKE cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *total = card_memory;
  *free = is(FAKE_OUT_OF_MEMORY) ? 0 : card_memory - created;
  return constant::success;
}
FAKE cuMemAlloc_v2(DevicePointer* memory, std::size_t bytes) {
  if (const Result fault = refused("cuMemAlloc_v2"); fault != constant::success) return fault;
  note("alloc", bytes);
  void* place = nullptr;
  const Result result = is(FAKE_OUT_OF_MEMORY) ? constant::out_of_memory : allocate(&place, bytes);
  *memory = reinterpret_cast<DevicePointer>(place);
  return result;
}
FAKE cuMemFree_v2(DevicePointer memory) {
  if (memory != 0) note("free", static_cast<unsigned long long>(contexts));
  std::free(reinterpret_cast<void*>(memory));
  return constant::success;
}
// Addresses are reserved without memory behind them: what is not mapped cannot be touched.
FAKE cuMemGetAllocationGranularity(std::size_t* grain, const AllocationProperties*, int) {
  return *grain = std::size_t{2} << 20, constant::success;
}
FAKE cuMemAddressReserve(DevicePointer* address, std::size_t bytes, std::size_t, DevicePointer, unsigned long long) {
  void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = reinterpret_cast<DevicePointer>(place);
  return place == MAP_FAILED ? constant::out_of_memory : constant::success;
}
FAKE cuMemAddressFree(DevicePointer address, std::size_t bytes) {
  munmap(reinterpret_cast<void*>(address), bytes);
  return constant::success;
}
FAKE cuMemCreate(MemoryHandle* handle, std::size_t bytes, const AllocationProperties*, unsigned long long) {
  note("alloc", bytes);
  if (is(FAKE_OUT_OF_MEMORY) || created + bytes > card_memory) return constant::out_of_memory;
  created += bytes;
  *handle = bytes;
  return constant::success;
}
FAKE cuMemRelease(MemoryHandle handle) {
  created -= handle;
  return constant::success;
}
FAKE cuMemMap(DevicePointer, std::size_t bytes, std::size_t, MemoryHandle handle, unsigned long long) {
  return handle == bytes ? constant::success : unknown;
}
FAKE cuMemUnmap(DevicePointer address, std::size_t bytes) {
  void* place = reinterpret_cast<void*>(address);
  madvise(place, bytes, MADV_DONTNEED);
  mprotect(place, bytes, PROT_NONE);
  return constant::success;
}
FAKE cuMemSetAccess(DevicePointer address, std::size_t bytes, const AccessDescription*, std::size_t) {
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? constant::success : unknown;
}
FAKE cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (const Result fault = refused("cuMemHostAlloc"); fault != constant::success) return fault;
  note("host_alloc", bytes);
  const Result result = allocate(memory, bytes);
  const std::scoped_lock lock(streams_mutex);
  if (result == constant::success) pinned()[static_cast<const char*>(*memory)] = bytes;
  return result;
}
FAKE cuMemFreeHost(void* memory) {
  if (memory == nullptr) return constant::success;
  note("host_free", static_cast<unsigned long long>(contexts));
  finish_all();
  const std::scoped_lock lock(streams_mutex);
  pinned().erase(static_cast<const char*>(memory));
  std::free(memory);
  return constant::success;
}
FAKE cuMemHostGetDevicePointer_v2(DevicePointer* device, void* memory, unsigned) {
  if (const Result fault = refused("cuMemHostGetDevicePointer_v2"); fault != constant::success) return fault;
  *device = reinterpret_cast<DevicePointer>(memory);
  return constant::success;
}
FAKE cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
  if (const Result fault = refused("cuMemcpyHtoDAsync_v2"); fault != constant::success) return fault;
  note(capturing != nullptr ? "captured_copy" : "to_device", bytes);
  void* const place = reinterpret_cast<void*>(to);
  if (!is_late() || is_pinned(from)) {
    act(stream, [=] { std::memcpy(place, from, bytes); });
  } else {
    const auto* const begin = static_cast<const char*>(from);
    act(stream, [place, copy = std::vector<char>(begin, begin + bytes)] { std::memcpy(place, copy.data(), copy.size()); });
  }
  return constant::success;
}
FAKE cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  note(capturing != nullptr ? "captured_copy" : "from_device", bytes);
  act(stream, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
  if (capturing == nullptr && !is_pinned(to)) {
    const std::scoped_lock lock(streams_mutex);
    stream_of(stream).finish();
  }
  return constant::success;
}
FAKE cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  note(capturing != nullptr ? "captured_copy" : "inside", bytes);
  act(stream, [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return constant::success;
}
FAKE cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count, Stream stream) {
  act(stream, [=] { std::fill_n(reinterpret_cast<unsigned*>(to), count, value); });
  return constant::success;
}
FAKE cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, Stream stream) {
  act(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, count); });
  return constant::success;
}
FAKE cuStreamCreate(Stream* stream, unsigned) {
  if (const Result fault = refused("cuStreamCreate"); fault != constant::success) return fault;
  const auto made = std::make_shared<FakeStream>();
  const std::scoped_lock lock(streams_mutex);
  *stream = reinterpret_cast<Stream>(made.get());
  streams()[*stream] = made;
  return constant::success;
}
FAKE cuStreamDestroy_v2(Stream stream) {
  const std::scoped_lock lock(streams_mutex);
  stream_of(stream).finish();
  streams().erase(stream);
  return constant::success;
}
FAKE cuStreamSynchronize(Stream stream) {
  note("wait");
  while (is_held()) usleep(1000);
  const std::scoped_lock lock(streams_mutex);
  stream_of(stream).finish();
  return constant::success;
}
FAKE cuStreamBeginCapture_v2(Stream, int) {
  if (!FAKE_ANY_KERNEL) return not_supported;
  if (const Result fault = refused("cuStreamBeginCapture_v2"); fault != constant::success) return fault;
  capturing = new Steps;
  return constant::success;
}
FAKE cuStreamEndCapture(Stream, CapturedGraph* graph) {
  if (!FAKE_ANY_KERNEL) return not_supported;
  std::unique_ptr<Steps> steps(std::exchange(capturing, nullptr));
  if (const Result fault = refused("cuStreamEndCapture"); fault != constant::success) return fault;
  *graph = reinterpret_cast<CapturedGraph>(steps.release());
  return constant::success;
}
FAKE cuEventCreate(Event* event, unsigned) {
  if (const Result fault = refused("cuEventCreate"); fault != constant::success) return fault;
  *event = reinterpret_cast<Event>(new FakeEvent);
  return constant::success;
}
FAKE cuEventRecord(Event event, Stream stream) {
  if (const Result fault = refused("cuEventRecord"); fault != constant::success) return fault;
  note("event");
  const std::scoped_lock lock(streams_mutex);
  *reinterpret_cast<FakeEvent*>(event) = {streams().at(stream), stream_of(stream).asked()};
  return constant::success;
}
FAKE cuEventSynchronize(Event handle) {
  if (const Result fault = refused("cuEventSynchronize"); fault != constant::success) return fault;
  const FakeEvent& event = *reinterpret_cast<FakeEvent*>(handle);
  const std::scoped_lock lock(streams_mutex);
  if (event.stream != nullptr) event.stream->finish(event.point);
  return constant::success;
}
FAKE cuEventQuery(Event handle) {
  if (const Result fault = refused("cuEventQuery"); fault != constant::success) return fault;
  if (is_held()) return constant::not_ready;
  FakeEvent& event = *reinterpret_cast<FakeEvent*>(handle);
  const std::scoped_lock lock(streams_mutex);
  if (event.stream == nullptr || event.stream->done >= event.point) return constant::success;
  if (!std::exchange(event.asked, true)) return constant::not_ready;
  event.stream->finish(event.point);
  return constant::success;
}
FAKE cuEventDestroy_v2(Event event) {
  delete reinterpret_cast<FakeEvent*>(event);
  return constant::success;
}
FAKE cuGraphInstantiateWithFlags(GraphExec* exec, CapturedGraph graph, unsigned long long) {
  if (!FAKE_ANY_KERNEL) return not_supported;
  if (const Result fault = refused("cuGraphInstantiateWithFlags"); fault != constant::success) return fault;
  *exec = reinterpret_cast<GraphExec>(new Steps(*reinterpret_cast<const Steps*>(graph)));
  return constant::success;
}
FAKE cuGraphLaunch(GraphExec exec, Stream stream) {
  if (const Result fault = refused("cuGraphLaunch"); fault != constant::success) return fault;
  const Steps& steps = *reinterpret_cast<const Steps*>(exec);
  note("graph", steps.size());
  act(stream, [&steps] {
    for (const auto& step : steps) step();
  });
  return constant::success;
}
FAKE cuGraphExecDestroy(GraphExec exec) {
  delete reinterpret_cast<Steps*>(exec);
  return constant::success;
}
FAKE cuGraphDestroy(CapturedGraph graph) {
  delete reinterpret_cast<Steps*>(graph);
  return constant::success;
}
/// A block a multiprocessor, clusters in parts of 16.
FAKE cuOccupancyMaxActiveClusters(int* clusters, Function, const LaunchConfig* config) {
  *clusters = 8 * (16 / static_cast<int>(config->attributes[0].value.cluster.x));
  return constant::success;
}
#if FAKE_FAULT != FAKE_SYMBOL_MISSING
FAKE cuLaunchKernelEx(const LaunchConfig* config, Function function, void** arguments, void**) {
  const Loaded& loaded = *reinterpret_cast<const Loaded*>(function);
  const Kernel& kernel = loaded.kernel;
  const std::uint64_t threads = std::uint64_t{config->block_x} * config->block_y * config->block_z;
  const bool some = config->grid_x > 0 && config->grid_y > 0 && config->grid_z > 0 && threads > 0;
  if (!some || config->grid_y > 65535 || config->grid_z > 65535 || threads > loaded.limits.most_threads ||
      config->shared_bytes > loaded.dynamic_shared) {
    note("refused_launch", config->shared_bytes, loaded.name.c_str());
    return invalid_value;
  }
  if (capturing != nullptr)
    if (const Result fault = refused("captured"); fault != constant::success) return fault;
  if (is_refused(kernel.prefix)) {
    note("refused_launch", 0, loaded.name.c_str());
    return unknown;
  }
  note(capturing != nullptr ? "captured_launch" : "launch", 0, loaded.name.c_str());
  if (!is(FAKE_WRONG_RESULTS)) launch(kernel, arguments[0], config->stream);
  return constant::success;
}
#endif
}
