// What NVIDIA's management library tells of its cards. The library (libnvidia-ml.so.1, of the driver) is opened at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

/// One card at one moment; what the card or the library does not tell is absent.
struct CardSample {
  std::uint32_t index = 0;
  std::string name, uuid;
  std::optional<unsigned> busy_percent;                    // of the time a kernel ran
  std::optional<unsigned> memory_busy_percent;             // of the time memory was read or written
  std::optional<std::uint64_t> memory_total, memory_used;  // bytes
  std::optional<unsigned> temperature;                     // degrees Celsius
  std::optional<double> power, power_limit;                // watts
};

class Nvml {
 public:
  /// Null where there is no such library, or it does not start: `reason` then says why.
  static std::unique_ptr<Nvml> open(std::string& reason);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// All cards that the library lists, in its order.
  std::vector<CardSample> sample() const;

 private:
  struct Functions;
  Nvml();
  void* library_ = nullptr;
  std::unique_ptr<Functions> functions_;
};

}  // namespace quern::cli
