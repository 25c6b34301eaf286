// Where the time of a traced run went: words, JSON and a page. Pure.
#pragma once

#include "output.hpp"
#include "trace_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::cli {

/// Spans of one sort together.
struct TraceShare {
  std::uint64_t spans = 0, rows = 0;
  double time = 0, longest = 0;  // microseconds
  void add(const TraceSpan& span);
};

struct TraceSummary {
  double length = 0;  // from the first start to the last end, microseconds
  // Steps: of several rows and of one of a session, and those of a training run.
  TraceShare prompt, decode, micro_batches, updates, evaluations;
  double outside = 0;  // of the length, in no step: the host samples, makes text, reads data, saves
  struct Device {
    std::string name;
    TraceShare runs, copies;
  };
  std::vector<Device> devices;
  TraceShare pages;                  // copies of pages that sequences shared
  std::vector<std::size_t> slowest;  // steps, as indices of spans, slowest first
  struct Kernels {
    std::string kernel, device;
    std::uint64_t count = 0, nodes = 0;
  };
  std::vector<Kernels> kernels;  // of a step of one row, or of all graphs of a training run; most nodes first
};

TraceSummary summary_of(const RecordedTrace& trace);

/// "193 ms", "1.25 s", "12 us".
std::string duration_text(double microseconds);

std::string trace_words(const std::string& name, const RecordedTrace& trace);
Json trace_report_json(const std::string& name, const RecordedTrace& trace);
/// One HTML file: the shares, each step's time, and a timeline of at most most_drawn_spans rectangles; what is narrower than a third of a
/// pixel there is drawn as one with its neighbours.
std::string trace_page(const std::string& name, const RecordedTrace& trace);

constexpr std::size_t most_drawn_spans = 20'000;
/// How every page of a trace begins, behind the document's type: a file of that name that begins otherwise is not replaced.
inline constexpr const char* trace_page_title = "quern trace: ";

}  // namespace quern::cli
