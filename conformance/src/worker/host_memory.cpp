// See host_memory.hpp.
#include "worker/host_memory.hpp"

#include "worker/arena.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace quern::conformance {
namespace {

/// A number in a file of its own; nothing of "max" or where there is no such file.
bool read_number(const std::filesystem::path& file, std::uint64_t& value) { return static_cast<bool>(std::ifstream(file) >> value); }

std::uint64_t available_to_the_machine() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (std::uint64_t kib = 0; in >> key >> kib;) {
    std::getline(in, unit);
    if (key == "MemAvailable:") return kib << 10;
  }
  return UINT64_MAX;
}

/// What a group would give up before its limit counts: pages of files that are not in use.
std::uint64_t reclaimable(const std::filesystem::path& statistics, const char* key) {
  std::ifstream in(statistics);
  std::string name;
  for (std::uint64_t value = 0; in >> name >> value;)
    if (name == key) return value;
  return 0;
}

/// Of the control group that this process is in, and of those above it.
std::uint64_t available_to_the_group() {
  std::uint64_t least = UINT64_MAX;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t name = line.find(':'), path = name == std::string::npos ? name : line.find(':', name + 1);
    if (path == std::string::npos) continue;
    const bool unified = line[name + 1] == ':', memory = line.substr(name + 1, path - name - 1) == "memory";
    if (!unified && !memory) continue;
    const std::filesystem::path root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::filesystem::path group = line.substr(path + 1);; group = group.parent_path()) {
      const std::filesystem::path folder = root / group.relative_path();
      std::uint64_t most = 0, used = 0;
      if (read_number(folder / (unified ? "memory.max" : "memory.limit_in_bytes"), most) &&
          read_number(folder / (unified ? "memory.current" : "memory.usage_in_bytes"), used)) {
        used -= std::min(used, reclaimable(folder / "memory.stat", unified ? "inactive_file" : "total_inactive_file"));
        least = std::min(least, most - std::min(most, used));
      }
      if (!group.has_relative_path()) break;
    }
  }
  return least;
}

std::string in_mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::uint64_t host_bytes(const Case& c) {
  const std::uint64_t in = input_bytes(c), out = output_bytes(c);
  if (c.graph) return 3 * in + out;  // here, in the device process, and packed
  std::uint64_t memory = 0, copies = 0;  // of the device; of what has gaps, as it was and as it is
  bool constants = false;
  for (const auto* list : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *list) {
      if (v.absent()) continue;
      const Placement placement(v.dtype, v.dims, v.layout);
      constants = constants || v.kind == QUERN_VALUE_CONSTANT;
      if (v.in_place_of < 0) memory += placement.bytes();
      if (!placement.packed()) copies += 2 * placement.bytes();
    }
  const std::uint64_t modes = (c.fast_conversions != 0 ? 2 : 1) * (constants ? 2 : 1);
  return in + (constants ? 2 : 1) * memory + copies + out * (2 * modes + 2);  // outputs there and here, a second run's, the expected ones
}

std::uint64_t available_host_bytes() { return std::min(available_to_the_machine(), available_to_the_group()); }

HostMemory::Reservation::~Reservation() {
  if (from_ == nullptr) return;
  {
    const std::lock_guard lock(from_->mutex_);
    from_->held_ -= bytes_;
  }
  from_->given_back_.notify_all();
}

HostMemory::Reservation::Reservation(Reservation&& other) noexcept : from_(std::exchange(other.from_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory::Reservation HostMemory::reserve(std::uint64_t bytes, std::string& lacking) {
  if (bytes < worth_counting) return {};
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return held_ == 0 || held_ + bytes <= room_; });
  if (held_ == 0) {
    const std::uint64_t available = available_(), most = available / 10 * 9;
    room_ = limit_ == 0 ? most : std::min(limit_, most);
    if (bytes > room_) {
      lacking = "the case needs " + in_mib(bytes) + " of host memory, " +
                (limit_ != 0 && limit_ < most ? "--memory allows " + in_mib(limit_) : in_mib(available) + " are available");
      return {};
    }
  }
  held_ += bytes;
  return {*this, bytes};
}

}  // namespace quern::conformance
