// See host_limits.hpp.
#include "quern/base/byte_sizes.hpp"
#include "quern/loader/host_limits.hpp"

#include "control_groups.hpp"
#include "quern/graph/error.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <string_view>

namespace quern::loader {
namespace {

/// The numbers of a file of "name number" or "name: number kB" lines.
class NumberFile {
 public:
  explicit NumberFile(const std::string& path) : text_(text_of(path)) {}
  std::optional<std::uint64_t> find(std::string_view prefix, std::string_view name) const {
    for (std::string_view rest = text_; !rest.empty();) {
      std::string_view line = next_part(rest, '\n');
      if (!line.starts_with(prefix) || !line.substr(prefix.size()).starts_with(name)) continue;
      line.remove_prefix(prefix.size() + name.size());
      if (line.starts_with(':')) line.remove_prefix(1);
      if (line.starts_with(' ') || line.starts_with('\t')) return leading_number(line);
    }
    return std::nullopt;
  }
  std::optional<std::uint64_t> find(std::string_view name) const { return find({}, name); }

 private:
  std::string text_;
};

/// The number that a file begins with; nothing of "max", of -1, and where there is no such file.
std::optional<std::uint64_t> number_in(const std::string& path) { return leading_number(text_of(path)); }

/// Pages of files that a group gives up before its limit counts: those on its lists, whether read lately or not. Version 1 counts the groups
/// below in numbers of their own.
std::uint64_t reclaimable(const ControlGroup& group) {
  const NumberFile statistics(group.folder + "/memory.stat");
  std::uint64_t bytes = 0;
  for (const std::string_view name : {"inactive_file", "active_file"}) {
    const std::optional<std::uint64_t> with_those_below = group.unified ? std::nullopt : statistics.find("total_", name);
    bytes += with_those_below ? *with_those_below : statistics.find(name).value_or(0);
  }
  return bytes;
}

/// Takes what a limit leaves into account.
void apply(HostMemory& memory, std::uint64_t limit, std::uint64_t used, const std::string& words) {
  if (memory.total == 0 || limit < memory.total) memory.total = limit;
  const std::uint64_t left = limit - std::min(limit, used);
  if (memory.available && *memory.available <= left) return;
  memory.available = left;
  memory.limit = words;
}

void apply_group(HostMemory& memory, const ControlGroup& group) {
  // Before hierarchies were the rule, a group of version 1 could count for itself alone.
  if (!group.unified && !group.innermost && number_in(group.folder + "/memory.use_hierarchy") == std::uint64_t{0}) return;
  struct Files {
    const char *limit, *used;
  };
  constexpr Files second[] = {{"/memory.max", "/memory.current"}, {"/memory.high", "/memory.current"}};
  constexpr Files first[] = {{"/memory.limit_in_bytes", "/memory.usage_in_bytes"},
                             {"/memory.memsw.limit_in_bytes", "/memory.memsw.usage_in_bytes"}};
  for (const Files& files : group.unified ? second : first) {
    const std::optional<std::uint64_t> limit = number_in(group.folder + files.limit);
    // Version 1 has a number near 2^63 for no limit; a limit beyond the machine limits nothing.
    if (!limit || (memory.total != 0 && *limit >= memory.total && *limit >= std::uint64_t{1} << 62)) continue;
    std::uint64_t used = number_in(group.folder + files.used).value_or(0);
    used -= std::min(used, reclaimable(group));
    apply(memory, *limit, used, concat("the control group '", group.name, "' may have ", byte_words(*limit)));
  }
}

std::uint32_t processors_of_mask() {
  std::uint32_t count = 1;
  for (int processors = 1024; processors <= 65536; processors *= 4) {  // the kernel refuses a set smaller than its own
    cpu_set_t* set = CPU_ALLOC(processors);
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(processors);
    CPU_ZERO_S(bytes, set);
    const bool ok = ::sched_getaffinity(0, bytes, set) == 0;
    if (ok) count = static_cast<std::uint32_t>(std::max(1, CPU_COUNT_S(bytes, set)));
    CPU_FREE(set);
    if (ok) break;
  }
  return count;
}

/// Of one group; nothing: no quota.
std::optional<std::uint32_t> processors_of_quota(const ControlGroup& group) {
  std::int64_t quota = 0, period = 0;
  if (group.unified) {
    const std::string text = text_of(group.folder + "/cpu.max");  // "max 100000" or "150000 100000"
    std::string_view rest = text;
    quota = static_cast<std::int64_t>(leading_number(next_part(rest, ' ')).value_or(0));
    period = static_cast<std::int64_t>(leading_number(rest).value_or(0));
  } else {
    quota = static_cast<std::int64_t>(number_in(group.folder + "/cpu.cfs_quota_us").value_or(0));
    period = static_cast<std::int64_t>(number_in(group.folder + "/cpu.cfs_period_us").value_or(0));
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(quota / period + (quota % period != 0 ? 1 : 0), 1, 65536));
}

}  // namespace

ProcessLimits process_limits() {
  const auto limit_of = [](int what) -> std::optional<std::uint64_t> {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(what), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return limit.rlim_cur;
  };
  return {limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA)};
}

HostMemory host_memory(const std::string& root, const ProcessLimits& limits) {
  const NumberFile machine(root + "/proc/meminfo");
  const auto bytes = [](const NumberFile& file, std::string_view name) -> std::optional<std::uint64_t> {
    const std::optional<std::uint64_t> kib = file.find(name);
    return kib ? std::optional(*kib << 10) : std::nullopt;
  };
  HostMemory memory;
  memory.total = bytes(machine, "MemTotal").value_or(0);
  memory.available = bytes(machine, "MemAvailable");
  if (!memory.available && machine.find("MemFree"))  // before Linux 3.14
    memory.available = *bytes(machine, "MemFree") + bytes(machine, "Cached").value_or(0);

  for (const ControlGroup& group : control_groups("memory", root)) apply_group(memory, group);
  if (limits.address_space || limits.data) {
    const NumberFile process(root + "/proc/self/status");
    const auto limit = [&](const std::optional<std::uint64_t>& most, std::string_view name, std::string_view words) {
      if (most) apply(memory, *most, bytes(process, name).value_or(0), concat("a process may have ", byte_words(*most), words));
    };
    limit(limits.address_space, "VmSize", " of addresses (ulimit -v)");
    limit(limits.data, "VmData", " of data (ulimit -d)");
  }
  return memory;
}

std::uint32_t usable_processors(const std::string& root) {
  std::uint32_t count = processors_of_mask();
  for (const ControlGroup& group : control_groups("cpu", root)) count = std::min(count, processors_of_quota(group).value_or(count));
  return count;
}

std::string root_of(const Settings& settings) {
  constexpr std::string_view proc = "/proc";
  return settings.proc_root.ends_with(proc) ? settings.proc_root.substr(0, settings.proc_root.size() - proc.size()) : std::string();
}

}  // namespace quern::loader
