// Tells a process that hangs from one that is slow, on a busy machine or from a cold disk.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace quern::loader {

/// What a process has done since it began, as the kernel counts it.
struct Work {
  std::chrono::milliseconds processor{0};  // of all its threads, user and system
  std::uint64_t pages_read = 0;            // faults that had to read from a disk
  std::chrono::microseconds disk_wait{0};  // time in which somebody on this machine, perhaps the process, waited for a disk
};

/// The numbers of /proc/<process>/stat and /proc/pressure/io. Nothing if the process is gone or cannot be read.
std::optional<Work> work_of(pid_t process);
/// The same from the files' texts; `pressure` is empty where the kernel does not measure it.
std::optional<Work> work_from(const std::string& stat, const std::string& pressure);

/// Judges one process, whose time began when this was made. It hangs if after `limit` it neither computed nor read for a while, with
/// disks that answer; if it computed for `limit`; or if six limits are over. Not thread-safe.
class HangWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// work: what the process has done by now; work_of(), but for tests.
  HangWatch(std::chrono::milliseconds limit, std::function<std::optional<Work>()> work, Clock::time_point start = Clock::now());

  /// True: it hangs. To be asked every few hundredths of a second: a longer gap is not the process's fault (the whole machine was suspended,
  /// or so busy that nobody got on), and counts as a tenth of a second.
  bool hangs(Clock::time_point now = Clock::now());
  /// "within 5000 ms", "in 5000 ms of processor time": the limit that was passed.
  const std::string& passed() const { return passed_; }

 private:
  std::chrono::milliseconds limit_;
  std::function<std::optional<Work>()> work_;
  Clock::time_point last_;
  Clock::duration spent_{0}, looked_{0}, next_;  // since the start, by the counting of hangs()
  Work before_;
  std::string passed_;
};

}  // namespace quern::loader
