// Reads what --trace wrote. The file may come from anywhere: it is read in one pass, with limits on everything that is kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

constexpr std::uint64_t most_trace_bytes = std::uint64_t{256} << 20;
constexpr std::size_t most_trace_spans = 1'000'000;
constexpr std::size_t most_trace_kernels = 100'000;
constexpr std::size_t longest_trace_name = 200;

/// A stretch of time on a track.
struct TraceSpan {
  std::uint32_t name = 0;        // of RecordedTrace::names
  std::uint32_t track = 0;       // 0 is the host, d + 1 the device d
  double start = 0, length = 0;  // microseconds
  std::uint64_t rows = 0;
};

struct TraceKernel {
  std::string kernel, device;
  std::uint64_t nodes = 0;
};

struct RecordedTrace {
  std::vector<std::string> names;  // of spans, each once
  std::map<std::uint32_t, std::string> tracks;
  std::vector<TraceSpan> spans;                 // by rising start
  std::map<std::string, std::uint64_t> counts;  // of all spans together: "bytes_to_devices"
  std::uint64_t nodes = 0;                      // of a step of one row
  std::vector<TraceKernel> kernels;
  std::size_t left_out = 0;  // events that are no spans: other programs write them
};

/// Throws Failure(exit_refused), which begins with `name`: no JSON, no spans, more than the limits, a time that is none.
RecordedTrace parse_trace(const std::string& name, std::string_view text);

}  // namespace quern::cli
