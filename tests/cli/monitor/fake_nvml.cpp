// A libnvidia-ml.so.1 for tests: two cards, of which the second tells less; FAKE_NVML=broken does not start.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {
bool broken() {
  const char* how = std::getenv("FAKE_NVML");
  return how != nullptr && std::string_view(how) == "broken";
}
bool first(const void* card) { return card == reinterpret_cast<const void*>(std::uintptr_t{1}); }
struct Utilisation {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr int not_supported = 3, driver_not_loaded = 9;
}  // namespace

#pragma GCC visibility push(default)
extern "C" {
int nvmlInit_v2() { return broken() ? driver_not_loaded : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "Driver Not Loaded"; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** card) { return *card = reinterpret_cast<void*>(std::uintptr_t{index + 1}), 0; }
int nvmlDeviceGetName(void* card, char* text, unsigned bytes) {
  return std::strncpy(text, first(card) ? "NVIDIA Test 100" : "NVIDIA Test 7", bytes), 0;
}
int nvmlDeviceGetUUID(void*, char* text, unsigned bytes) { return std::strncpy(text, "GPU-00000000-1111", bytes), 0; }
int nvmlDeviceGetUtilizationRates(void* card, Utilisation* to) { return *to = {87, 41}, first(card) ? 0 : not_supported; }
int nvmlDeviceGetMemoryInfo(void*, Memory* to) { return *to = {85899345920ull, 64424509440ull, 21474836480ull}, 0; }
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* to) { return *to = 54, sensor; }
int nvmlDeviceGetPowerUsage(void* card, unsigned* to) { return *to = 612500, first(card) ? 0 : not_supported; }
}
#pragma GCC visibility pop
