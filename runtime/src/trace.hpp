// What a session's steps did and when: spans of time, each with counts, for a timeline that a person looks at.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::runtime {

struct TraceCount {
  const char* name;  // static
  std::uint64_t value;
};

/// `track` 0 is the host; d + 1 is the session's device d.
struct TraceSpan {
  std::string name;
  std::uint32_t track = 0;
  double start = 0, length = 0;  // microseconds since the trace began
  std::vector<TraceCount> counts;
};

class Trace {
 public:
  /// Microseconds since the trace began.
  double now() const { return std::chrono::duration<double, std::micro>(Clock::now() - began_).count(); }
  /// A span that began at `start` and ends now.
  void add(std::string name, std::uint32_t track, double start, std::vector<TraceCount> counts) {
    spans_.push_back({std::move(name), track, start, now() - start, std::move(counts)});
  }
  const std::vector<TraceSpan>& spans() const noexcept { return spans_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now();
  std::vector<TraceSpan> spans_;
};

}  // namespace quern::runtime
