// A libcuda.so.1 that hands every call on to the driver that SPIED_DRIVER names, a card's or fake_cuda.cpp's, and writes down in the file
// SPY_LOG what it was asked, in the words of fake_cuda.cpp: what a step asks of a real card's driver.
//
// With SPY_TIMES set, each kernel runs alone. The line of a launch has the nanoseconds from its launch to its end, with some microseconds of the
// driver. No graph is made: the kernels of every step are launched one by one.
//
// No function here has more than six arguments, all of them integers or pointers, which x86-64 and AArch64 pass in registers: so one
// signature hands on any of them.
#include "driver.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace {

using Word = unsigned long;
using AnyFunction = int (*)(Word, Word, Word, Word, Word, Word);

thread_local bool capturing = false;

bool timing() {
  static const bool is = std::getenv("SPY_TIMES") != nullptr;
  return is;
}

AnyFunction real(const char* name) {
  static void* const driver = dlopen(std::getenv("SPIED_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  void* const function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (function == nullptr) {
    std::fprintf(stderr, "spying_cuda: SPIED_DRIVER names no driver with %s\n", name);
    std::abort();
  }
  return reinterpret_cast<AnyFunction>(function);
}

void note(const char* what, unsigned long long bytes, const char* name = "") {
  static std::FILE* const log = std::fopen(std::getenv("SPY_LOG"), "ae");
  if (log == nullptr) std::abort();
  std::fprintf(log, "%s %llu %s\n", what, bytes, name);
  std::fflush(log);
}

/// What kernels are called: a handle's name from when it was got.
class Names {
 public:
  void put(Word function, const char* name) {
    const std::lock_guard lock(mutex_);
    names_[function] = name;
  }
  std::string of(Word function) {
    const std::lock_guard lock(mutex_);
    return names_[function];
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Word, std::string> names_;
};
Names& names() {
  static Names all;
  return all;
}

/// The line of a call, where it has one.
void note_call(std::string_view name, Word b, Word c) {
  if (name == "cuMemAlloc_v2" || name == "cuMemCreate") note("alloc", b);
  else if (name == "cuMemHostAlloc") note("host_alloc", b);
  else if (name == "cuMemcpyHtoDAsync_v2") note(capturing ? "captured_copy" : "to_device", c);
  else if (name == "cuMemcpyDtoHAsync_v2") note(capturing ? "captured_copy" : "from_device", c);
  else if (name == "cuMemcpyDtoDAsync_v2") note(capturing ? "captured_copy" : "inside", c);
  else if (name == "cuMemsetD32Async" || name == "cuMemsetD8Async") note(capturing ? "captured_set" : "set", c);
  else if (name == "cuLaunchKernelEx" && !timing()) note(capturing ? "captured_launch" : "launch", 0, names().of(b).c_str());
  else if (name == "cuGraphInstantiateWithFlags") note("instantiate", 0);
  else if (name == "cuGraphLaunch") note("graph", 0);
  else if (name == "cuStreamSynchronize" || name == "cuEventSynchronize" || name == "cuCtxSynchronize") note("wait", 0);
  else if (name == "cuEventRecord") note("event", 0);
  else if (name == "cuStreamBeginCapture_v2") capturing = !timing();
  else if (name == "cuStreamEndCapture") capturing = false;
}

/// What is known once a call has been answered.
void note_result(std::string_view name, int result, Word a, Word c) {
  if (name == "cuModuleGetFunction" && result == 0) names().put(*reinterpret_cast<const Word*>(a), reinterpret_cast<const char*>(c));
}

/// A call of the driver's, a launch between two waits where kernels are timed.
int handed_on(std::string_view name, AnyFunction function, Word a, Word b, Word c, Word d, Word e, Word f) {
  constexpr int not_supported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  if (!timing()) return function(a, b, c, d, e, f);
  if (name == "cuStreamBeginCapture_v2") return not_supported;
  if (name != "cuLaunchKernelEx") return function(a, b, c, d, e, f);
  const AnyFunction wait = real("cuCtxSynchronize");
  wait(0, 0, 0, 0, 0, 0);
  const auto start = std::chrono::steady_clock::now();
  const int result = function(a, b, c, d, e, f);
  wait(0, 0, 0, 0, 0, 0);
  const auto took = std::chrono::steady_clock::now() - start;
  note("launch", static_cast<unsigned long long>(std::chrono::nanoseconds(took).count()), names().of(b).c_str());
  return result;
}

}  // namespace

#define SPY(name, arguments) \
  extern "C" [[gnu::visibility("default")]] int name(Word a, Word b, Word c, Word d, Word e, Word f) { \
    static const AnyFunction function = real(#name); \
    note_call(#name, b, c); \
    const int result = handed_on(#name, function, a, b, c, d, e, f); \
    note_result(#name, result, a, c); \
    return result; \
  }
QUERN_CUDA_FUNCTIONS(SPY)
