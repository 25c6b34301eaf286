// See bench_table.hpp.
#include "bench/bench_table.hpp"

#include "bench/work.hpp"
#include "report/matrix.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace quern::conformance {
namespace {

std::string number(const char* format, double x) {
  char text[48];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

/// Units a second, and the share of a peak; 0 where there is none.
struct Rate {
  double value = 0, share = 0;
};
Rate rate(double work, double seconds, const std::map<Peak, double>& peaks, Peak of) {
  if (!(work > 0) || !(seconds > 0)) return {};
  const auto peak = peaks.find(of);
  return {work / seconds, peak == peaks.end() ? 0.0 : work / seconds / peak->second};
}

Rate bytes_rate(const DeviceBench& b, const BenchRow& row) {
  return rate(work_of(*row.what).bytes, row.result.median(), b.peaks, Peak::bandwidth);
}
Rate flops_rate(const DeviceBench& b, const BenchRow& row) {
  return rate(work_of(*row.what).flops, row.result.median(), b.peaks, peak_of(*row.what, row.result.fast));
}

std::string billions(const Rate& r) { return r.value > 0 ? number("%.2f", r.value * 1e-9) : "-"; }
std::string percent(const Rate& r) { return r.share > 0 ? number("%.0f %%", 100 * r.share) : "-"; }

std::string mode_name(const BenchResult& r) { return std::string(r.fast ? "fast" : "exact") + (r.packed ? " packed" : ""); }

/// Numbers to the right, words to the left.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t numbers) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string room(widths[c] - row[c].size(), ' ');
      if (c < numbers) text += room + row[c] + "  ";
      else text += row[c] + (c + 1 == row.size() ? "" : room + "  ");
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string bench_text(const DeviceBench& b) {
  std::string text = b.target.label + " (" + b.target.device_name + ", " + b.target.plugin_id + " " + b.target.version + ")\n";
  text += "peaks, measured by its own ops:";
  for (const auto& [peak, value] : b.peaks)
    text += std::string(peak == Peak::latency ? " " : ", ") + peak_name(peak) + " " +
            (peak == Peak::latency     ? number("%.1f us", value * 1e6)
             : peak == Peak::bandwidth ? number("%.1f GB/s", value * 1e-9)
                                       : number("%.1f GFLOP/s", value * 1e-9));
  text += "\n";
  std::vector<std::vector<std::string>> rows{{"ms", "spread", "GB/s", "of peak", "GFLOP/s", "of peak", "result", "numerics", "case"}};
  for (const BenchRow& row : b.rows) {
    const BenchResult& r = row.result;
    const Rate bytes = bytes_rate(b, row), flops = flops_rate(b, row);
    const std::string spread = r.seconds.empty() ? "-" : number("%.0f %%", 100 * (r.seconds.back() - r.seconds.front()) / r.median());
    const std::string median = r.seconds.empty() ? "-" : number("%.4f", r.median() * 1e3);
    rows.push_back({median, spread, billions(bytes), percent(bytes), billions(flops), percent(flops), status_name(r.verdict.status),
                    mode_name(r), row.what->name});
  }
  text += aligned(rows, 6);
  for (const BenchRow& row : b.rows)
    if (!is_green(row.result.verdict.status)) text += "not green: " + row.what->name + "\n    " + row.result.verdict.text + "\n";
  return text;
}

std::string bench_json(const Header& header, const std::vector<DeviceBench>& devices) {
  using nlohmann::json;
  json list = json::array();
  for (const DeviceBench& b : devices) {
    json peaks = json::object(), cases = json::array();
    for (const auto& [peak, value] : b.peaks) peaks[peak_name(peak)] = value;
    for (const BenchRow& row : b.rows) {
      const Work work = work_of(*row.what);
      const BenchResult& r = row.result;
      const Rate bytes = bytes_rate(b, row), flops = flops_rate(b, row);
      cases.push_back({{"case", row.what->name},
                       {"status", status_name(r.verdict.status)},
                       {"text", r.verdict.text},
                       {"numerics", r.fast ? "fast" : "exact"},
                       {"packed", r.packed},
                       {"kernel", r.kernel},
                       {"seconds", r.seconds},
                       {"median", r.median()},
                       {"bytes", work.bytes},
                       {"flops", work.flops},
                       {"bytes_per_second", bytes.value},
                       {"share_of_bandwidth", bytes.share},
                       {"flops_per_second", flops.value},
                       {"share_of_flops", flops.share}});
    }
    list.push_back({{"label", b.target.label}, {"peaks", peaks}, {"cases", cases}});
  }
  return json{{"header", json::parse(header_line(header))}, {"devices", list}}.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace quern::conformance
