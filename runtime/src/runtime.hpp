// A runtime: the loader with its settings, the devices in use, limits and policy. Shared by models and sessions.
#pragma once

#include "memory.hpp"
#include "placement.hpp"

#include "quern/loader/loader.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// Whether packed weights are kept in files between runs.
enum class WeightsCacheMode {
  off,
  on,
  verify,  // and reads the whole model again before it believes that it is the one that was packed
};
struct WeightsCacheSettings {
  WeightsCacheMode mode = WeightsCacheMode::off;
  std::uint64_t limit = std::uint64_t{64} << 30;  // bytes of all files together; 0: none
};

/// What a runtime is made from: the loader's settings, and those that are the runtime's own.
struct RuntimeSettings {
  loader::Settings loader;
  std::map<std::string, std::uint64_t> memory_limits;  // device label or backend id -> bytes
  Fallback fallback = Fallback::warn;
  WeightsCacheSettings weights_cache;  // its folder is the loader's cache directory
};

/// "cuda:0=8G,cpu=512M" -> bytes. K, M, G and T are powers of 1024. Throws Error(QUERN_INVALID_ARGUMENT) naming `from`.
std::map<std::string, std::uint64_t> parse_memory_limits(std::string_view text, std::string_view from);
Fallback parse_fallback(std::string_view text, std::string_view from);
/// "off", "on" or "verify"; 0 and 1 are off and on.
WeightsCacheMode parse_weights_cache(std::string_view text, std::string_view from);
/// "32G": bytes, with K, M, G or T a power of 1024; "0" is no limit.
std::uint64_t parse_weights_cache_limit(std::string_view text, std::string_view from);

class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  explicit Runtime(RuntimeSettings settings);

  const RuntimeSettings& settings() const noexcept { return settings_; }
  loader::Report report() const { return loader_.report(); }
  const loader::Loader& loader() const noexcept { return loader_; }
  /// Throws Error(QUERN_BACKEND_UNAVAILABLE) if a demand cannot be met or there is no device.
  void require_ready() const { loader_.require(); }

  /// The devices that a model is placed on, best first: under a demand the best of each demanded backend, else the best
  /// device and, behind it, the CPU. Opened on first use.
  std::vector<std::shared_ptr<MemoryBudget>> devices();
  /// Whether the user named backends or a device: then nothing else is first.
  bool demanded() const;
  /// One of the devices that may be used, "cpu:0"; "" is the first of devices(). Opened on first use. Throws
  /// Error(QUERN_NOT_FOUND) with the list.
  std::shared_ptr<MemoryBudget> device(const std::string& label);
  /// As the user set it, else the processors that this process may use.
  std::uint32_t threads() const noexcept { return threads_; }
  void log(std::uint32_t level, const std::string& text) const;

 private:
  std::shared_ptr<MemoryBudget> open(const loader::Candidate& candidate);
  std::vector<std::shared_ptr<MemoryBudget>> open_best(const std::vector<loader::Candidate>& candidates);
  RuntimeSettings settings_;
  loader::Loader loader_;
  std::uint32_t threads_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<MemoryBudget>> devices_;
  std::map<std::string, std::shared_ptr<MemoryBudget>> opened_;  // by label: a device is opened once, under one limit
};

/// Whether a device's memory is the host's: that of its processors, or of a card that has none of its own.
bool shares_host_memory(const MemoryBudget& budget);

/// What a device has left, as far as it is known.
struct Room {
  std::optional<std::uint64_t> free;       // by the system, its control groups and the driver
  std::optional<std::uint64_t> available;  // that, or less under the user's limit
  std::string limit;                       // what makes `free` less than the machine has: "the control group .. may have .. bytes"
};
Room room_on(const MemoryBudget& budget);

/// Throws Error(QUERN_OUT_OF_MEMORY) where the system and its control groups have no such many bytes left: pages that they refuse later would
/// end the process.
void require_room(const MemoryBudget& budget, std::uint64_t bytes, const char* what);

}  // namespace quern::runtime
