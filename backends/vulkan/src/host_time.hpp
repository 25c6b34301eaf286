// What a run costs the host, beside what it waits for the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace quern::vulkan {

class HostTime {
 public:
  enum Part { before, submit, wait, behind, parts };

  class Run {
   public:
    /// What went by since the last call, or the beginning, was this part's.
    void was(Part part) noexcept {
      const Clock::time_point now = Clock::now();
      took_[part] += now - last_;
      last_ = now;
    }

    /// What went by since the last call was nobody's.
    void goes_on() noexcept { last_ = Clock::now(); }

   private:
    friend HostTime;
    using Clock = std::chrono::steady_clock;
    Clock::time_point last_ = Clock::now();
    std::chrono::nanoseconds took_[parts]{};
  };

  void add(const Run& run) noexcept {
    ++runs_;
    for (int part = 0; part < parts; ++part) took_[part] += run.took_[part];
  }
  std::uint64_t runs() const noexcept { return runs_; }
  /// Microseconds of a run, on average; of at least one.
  std::string text() const {
    double us[parts];
    for (int part = 0; part < parts; ++part) us[part] = static_cast<double>(took_[part].count()) / 1e3 / static_cast<double>(runs_);
    char line[160];
    std::snprintf(line, sizeof line,
                  "%.1f us of the host a run (%.1f before the submit, %.1f submit, %.1f behind), %.1f us wait for the device",
                  us[before] + us[submit] + us[behind], us[before], us[submit], us[behind], us[wait]);
    return line;
  }

 private:
  std::uint64_t runs_ = 0;
  std::chrono::nanoseconds took_[parts]{};
};

}  // namespace quern::vulkan
