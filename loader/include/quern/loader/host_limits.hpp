// What this process may take of the machine: memory and processors, as the machine, its control groups and its own limits leave them.
//
// A container, a pod and a systemd unit are control groups, one inside the other, of version 1, 2 or both at once. Each group that this
// process is in may limit memory and time, and so may each above it. A group's use counts without pages of files that the system can drop.
// `root` comes before every path that is read, so that a test can stage a machine; it is empty otherwise.
#pragma once

#include "quern/loader/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace quern::loader {

/// RLIMIT_AS and RLIMIT_DATA; nothing: no limit.
struct ProcessLimits {
  std::optional<std::uint64_t> address_space, data;
};
ProcessLimits process_limits();

struct HostMemory {
  std::uint64_t total = 0;                 // what the machine has, or a smaller limit; 0: not known
  std::optional<std::uint64_t> available;  // what this process may still take; nothing: not known
  std::string limit;                       // what leaves no more: "the control group '/box' may have 1048576 bytes"; empty: the machine
};
HostMemory host_memory(const std::string& root = {}, const ProcessLimits& limits = process_limits());

/// Processors that this process may use: its affinity mask (which follows cpusets), cut to the CPU quotas of its control groups, rounded
/// up. At least 1.
std::uint32_t usable_processors(const std::string& root = {});

/// The root under which `settings` stage a machine.
std::string root_of(const Settings& settings);

}  // namespace quern::loader
