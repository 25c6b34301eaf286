// See nvml.hpp. Declarations follow the NVML API reference; the library's names are the versioned ones.
#include "nvml.hpp"

#include <dlfcn.h>

#include <array>

namespace quern::cli {
namespace nvml {

using Result = int;
using Card = struct CardTag*;
struct Utilisation {  // nvmlUtilization_t
  unsigned gpu, memory;
};
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

}  // namespace nvml

namespace {

using nvml::Card, nvml::Memory, nvml::Result, nvml::Utilisation;
constexpr Result success = 0;
constexpr int sensor_gpu = 0;
constexpr unsigned text_bytes = 96;

template <class Function>
bool load(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  return to != nullptr;
}

/// What `call` writes, or nothing where it fails or there is no such function.
template <class Value, class Function, class... Arguments>
std::optional<Value> ask(Function* call, Arguments... arguments) {
  Value value{};
  if (call == nullptr || call(arguments..., &value) != success) return std::nullopt;
  return value;
}

template <class Function>
std::string text(Function* call, Card card) {
  std::array<char, text_bytes> bytes{};
  if (call == nullptr || call(card, bytes.data(), text_bytes) != success) return {};
  bytes.back() = '\0';
  return bytes.data();
}

}  // namespace

struct Nvml::Functions {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error)(Result) = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*card)(unsigned, Card*) = nullptr;
  Result (*name)(Card, char*, unsigned) = nullptr;
  Result (*uuid)(Card, char*, unsigned) = nullptr;
  Result (*utilisation)(Card, Utilisation*) = nullptr;
  Result (*memory)(Card, Memory*) = nullptr;
  Result (*temperature)(Card, int, unsigned*) = nullptr;
  Result (*power)(Card, unsigned*) = nullptr;
  Result (*power_limit)(Card, unsigned*) = nullptr;
};

Nvml::Nvml() : functions_(std::make_unique<Functions>()) {}

std::unique_ptr<Nvml> Nvml::open(std::string& reason) {
  constexpr const char* file = "libnvidia-ml.so.1";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* words = dlerror();
    reason = std::string("the NVIDIA driver's library ") + file + " cannot be opened (" + (words == nullptr ? "no reason given" : words) +
             "); install the driver to see its cards";
    return nullptr;
  }
  std::unique_ptr<Nvml> nvml(new Nvml);
  Functions& f = *nvml->functions_;
  if (!load(library, "nvmlInit_v2", f.init) || !load(library, "nvmlShutdown", f.shutdown) || !load(library, "nvmlErrorString", f.error) ||
      !load(library, "nvmlDeviceGetCount_v2", f.count) || !load(library, "nvmlDeviceGetHandleByIndex_v2", f.card)) {
    reason = std::string(file) + " lacks functions that it has had since 2012: it is no library of NVIDIA's driver";
    dlclose(library);
    return nullptr;
  }
  load(library, "nvmlDeviceGetName", f.name);
  load(library, "nvmlDeviceGetUUID", f.uuid);
  load(library, "nvmlDeviceGetUtilizationRates", f.utilisation);
  load(library, "nvmlDeviceGetMemoryInfo", f.memory);
  load(library, "nvmlDeviceGetTemperature", f.temperature);
  load(library, "nvmlDeviceGetPowerUsage", f.power);
  load(library, "nvmlDeviceGetEnforcedPowerLimit", f.power_limit);
  if (const Result result = f.init(); result != success) {
    const char* words = f.error(result);
    reason = std::string(file) + " does not start: " + (words == nullptr ? "error " + std::to_string(result) : words) +
             "; see whether nvidia-smi works";
    dlclose(library);
    return nullptr;
  }
  nvml->library_ = library;
  return nvml;
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  functions_->shutdown();
  dlclose(library_);
}

std::vector<CardSample> Nvml::sample() const {
  const Functions& f = *functions_;
  std::vector<CardSample> cards;
  const unsigned count = ask<unsigned>(f.count).value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    const auto card = ask<Card>(f.card, i);
    if (!card) continue;  // lost, or another user's
    CardSample& s = cards.emplace_back();
    s.index = i;
    s.name = text(f.name, *card);
    s.uuid = text(f.uuid, *card);
    if (const auto busy = ask<Utilisation>(f.utilisation, *card)) {
      s.busy_percent = busy->gpu;
      s.memory_busy_percent = busy->memory;
    }
    if (const auto memory = ask<Memory>(f.memory, *card)) {
      s.memory_total = memory->total;
      s.memory_used = memory->used;
    }
    s.temperature = ask<unsigned>(f.temperature, *card, sensor_gpu);
    if (const auto milliwatts = ask<unsigned>(f.power, *card)) s.power = *milliwatts / 1000.0;
    if (const auto milliwatts = ask<unsigned>(f.power_limit, *card)) s.power_limit = *milliwatts / 1000.0;
  }
  return cards;
}

}  // namespace quern::cli
