#include "bench_report.hpp"

#include "failure.hpp"
#include "line_chart.hpp"
#include "numbers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>

namespace quern::cli {
namespace {

std::string speed_line(const std::string& name, std::uint32_t tokens, const quern_bench_speed& speed, const std::string& share) {
  return name + fixed(speed.tokens_per_second, 2) + " tokens/s  +- " + fixed(speed.deviation, 2) + "  (" + std::to_string(tokens) +
         (tokens == 1 ? " token, best " : " tokens, best ") + fixed(speed.best, 2) + ")  " + share + "\n";
}

std::string of_peak(double share, double peak, const char* unit) {
  if (peak <= 0) return "no peak: the device has no room or no op to measure it, or is slower at a product alone";
  return fixed(share * 100, 1) + " % of " + fixed(peak / 1e9, 1) + " " + unit + " measured";
}

std::string percent(double share) { return share > 0 ? fixed(share * 100, 1) + " %" : "-"; }

using Cells = std::vector<std::string>;

/// The table for people, its head first.
std::vector<Cells> cells_of(const std::vector<BenchRun>& runs) {
  std::vector<Cells> rows{
      {"threads", "batch", "depth", "prompt", "prefill tokens/s", "of peak", "answer", "decode tokens/s", "of bandwidth"}};
  for (const BenchRun& run : runs) {
    const auto speed = [&run](const quern_bench_speed& s) {  // one repetition has no deviation
      return fixed(s.tokens_per_second, 2) + (run.options.repetitions > 1 ? " +- " + fixed(s.deviation, 2) : "");
    };
    const quern_bench_result& r = run.result;
    rows.push_back({std::to_string(r.threads), std::to_string(run.options.batch), with_commas(run.options.depth),
                    with_commas(run.options.prompt_tokens), speed(r.prefill), percent(r.prefill_peak_share),
                    with_commas(run.options.decode_tokens), speed(r.decode),
                    percent(r.decode_bandwidth_share) + (r.valid != 0 ? "" : " not valid")});
  }
  return rows;
}

std::vector<std::size_t> widths_of(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Cells& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  return widths;
}

std::string to_the_right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string headline(const BenchRun& run) {
  return printable(run.where.model) + ": " + printable(run.where.backend) + " on " + printable(run.where.device) + ", kernels " +
         printable(run.where.kernels);
}

/// A field of CSV (RFC 4180). A text that a spreadsheet would compute gets a ' in front.
std::string csv_text(const std::string& text) {
  std::string out = "\"";
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) out += '\'';
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

/// As many digits as give the number back.
std::string csv_number(double value) {
  if (!std::isfinite(value)) return "";
  std::array<char, 40> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end) : "";
}

enum class Phase { both, prefill, decode };

/// One thing that may vary.
struct BenchAxis {
  const char* name;
  const char* unit;  // behind its number in the name of a curve
  Phase phase;       // whose speed it changes
  std::function<std::uint64_t(const BenchRun&)> value;
  bool concerns(Phase other) const { return phase == Phase::both || phase == other; }
};

const std::vector<BenchAxis>& bench_axes() {
  static const std::vector<BenchAxis> axes = {
      {"depth: tokens already in a sequence", "deep", Phase::both, [](const BenchRun& run) { return run.options.depth; }},
      {"batch: sequences at a time", "at a time", Phase::both, [](const BenchRun& run) { return std::uint64_t{run.options.batch}; }},
      {"threads", "threads", Phase::both, [](const BenchRun& run) { return std::uint64_t{run.result.threads}; }},
      {"prompt tokens", "prompt tokens", Phase::prefill, [](const BenchRun& run) { return std::uint64_t{run.options.prompt_tokens}; }},
      {"answer tokens", "answer tokens", Phase::decode, [](const BenchRun& run) { return std::uint64_t{run.options.decode_tokens}; }}};
  return axes;
}

bool varies(const std::vector<BenchRun>& runs, const BenchAxis& axis) {
  return std::ranges::any_of(runs, [&](const BenchRun& run) { return axis.value(run) != axis.value(runs.front()); });
}

/// The other things of a run that vary: "8 at a time, 2 threads".
std::string curve_name(const std::vector<BenchRun>& runs, const BenchRun& run, const BenchAxis& over, Phase phase) {
  std::string name;
  for (const BenchAxis& axis : bench_axes()) {
    if (axis.name == over.name || !axis.concerns(phase) || !varies(runs, axis)) continue;
    const std::uint64_t value = axis.value(run);
    name +=
        (name.empty() ? "" : ", ") + with_commas(value) + " " + (value == 1 && axis.unit == std::string("threads") ? "thread" : axis.unit);
  }
  return name;
}

/// Tokens per second that the measured bandwidth or arithmetic would allow; 0 if unknown.
double decode_limit(const BenchRun& run) {
  const auto& r = run.result;
  return r.bytes_per_step == 0 ? 0 : r.read_bytes_per_second / static_cast<double>(r.bytes_per_step) * run.options.batch;
}
double prefill_limit(const BenchRun& run) {
  const auto& r = run.result;
  return r.multiply_adds_per_token == 0 ? 0 : r.multiply_adds_per_second / static_cast<double>(r.multiply_adds_per_token);
}

Chart chart_over(const std::vector<BenchRun>& runs, const BenchAxis& axis, Phase phase) {
  const bool decode = phase == Phase::decode;
  Chart chart{decode ? "decode" : "prefill", axis.name, "tokens per second", {}};
  std::map<std::string, std::size_t> known;
  for (const BenchRun& run : runs) {
    const auto [at, fresh] = known.try_emplace(curve_name(runs, run, axis, phase), chart.series.size());
    if (fresh) chart.series.push_back({at->first, {}, {}});
    ChartSeries& series = chart.series[at->second];
    const quern_bench_speed& speed = decode ? run.result.decode : run.result.prefill;
    const double x = static_cast<double>(axis.value(run)), limit = decode ? decode_limit(run) : prefill_limit(run);
    if (std::ranges::find(series.points, x, &ChartPoint::x) != series.points.end()) continue;  // it differs in the other phase alone
    series.points.push_back({x, speed.tokens_per_second, speed.deviation});
    if (limit > 0) series.limit.push_back({x, limit});
  }
  for (ChartSeries& series : chart.series) {
    std::ranges::stable_sort(series.points, {}, &ChartPoint::x);
    std::ranges::stable_sort(series.limit, {}, &base::Point::x);
  }
  return chart;
}

}  // namespace

std::vector<BenchPlan> bench_plans(const BenchLists& lists) {
  const std::size_t pairs = std::max(lists.prompts.size(), lists.decodes.size());
  const std::vector<std::uint32_t> threads = lists.threads.empty() ? std::vector<std::uint32_t>{0} : lists.threads;
  double count = static_cast<double>(pairs);
  for (const std::size_t size : {threads.size(), lists.batches.size(), lists.depths.size()}) count *= static_cast<double>(size);
  if (count > static_cast<double>(most_benches))
    throw Failure(exit_usage, "bench: these lists are " + fixed(count, 0) + " measurements, and " + std::to_string(most_benches) +
                                  " are the most; give shorter lists");
  std::vector<BenchPlan> plans;
  for (const std::uint32_t t : threads)
    for (const std::uint32_t batch : lists.batches)
      for (const std::uint64_t depth : lists.depths)
        for (std::size_t i = 0; i < pairs; ++i) {
          BenchPlan plan{t, {}};
          plan.options.struct_size = sizeof plan.options;
          plan.options.prompt_tokens = lists.prompts[std::min(i, lists.prompts.size() - 1)];
          plan.options.decode_tokens = lists.decodes[std::min(i, lists.decodes.size() - 1)];
          plan.options.repetitions = lists.repetitions;
          plan.options.batch = batch;
          plan.options.depth = depth;
          plans.push_back(plan);
        }
  return plans;
}

std::string bench_page(const BenchRun& run) {
  const quern_bench_result& result = run.result;
  return run.where.backend + " on " + run.where.device + ", kernels " + run.where.kernels + ", " + std::to_string(result.threads) +
         (result.threads == 1 ? " thread" : " threads") + ", batch " + std::to_string(run.options.batch) + ", depth " +
         std::to_string(run.options.depth) + "\n" +
         speed_line("prefill  ", run.options.prompt_tokens, result.prefill,
                    of_peak(result.prefill_peak_share, result.multiply_adds_per_second, "G multiply-adds/s")) +
         speed_line("decode   ", run.options.decode_tokens, result.decode,
                    of_peak(result.decode_bandwidth_share, result.read_bytes_per_second, "GB/s")) +
         "memory   peak " + byte_words(result.peak_resident_bytes) + " resident, " + byte_words(result.peak_device_bytes) +
         " allocated on devices\n" + (result.valid != 0 ? "" : "not valid: a share is above 105 %\n");
}

std::string bench_table(const std::vector<BenchRun>& runs) {
  const std::vector<Cells> rows = cells_of(runs);
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string text = headline(runs.front()) + "\n";
  for (const Cells& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) text += (c == 0 ? "" : "  ") + to_the_right(row[c], widths[c]);
    text += "\n";
  }
  return text;
}

std::string bench_markdown(const std::vector<BenchRun>& runs) {
  const std::vector<Cells> rows = cells_of(runs);
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string text;
  for (const char c : headline(runs.front()))
    text += std::string_view("\\`*_[]<>|#").find(c) == std::string_view::npos ? std::string(1, c) : std::string("\\") + c;
  text += "\n\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < rows[r].size(); ++c) text += "| " + to_the_right(rows[r][c], widths[c]) + " ";
    text += "|\n";
    if (r != 0) continue;
    for (const std::size_t width : widths) text += "|" + std::string(width + 1, '-') + ":";
    text += "|\n";
  }
  return text;
}

std::string bench_csv(const std::vector<BenchRun>& runs) {
  std::string text =
      "model,backend,device,kernels,threads,batch,depth,repetitions,prompt_tokens,prefill_tokens_per_second,prefill_deviation,prefill_best,"
      "prefill_worst,prefill_peak_share,decode_tokens,decode_tokens_per_second,decode_deviation,decode_best,decode_worst,decode_bandwidth_share,"
      "read_bytes_per_second,multiply_adds_per_second,bytes_per_step,multiply_adds_per_token,resident_bytes,device_bytes,valid\n";
  for (const BenchRun& run : runs) {
    const quern_bench_result& r = run.result;
    const auto speed = [](std::uint32_t tokens, const quern_bench_speed& s, double share) {
      return std::to_string(tokens) + "," + csv_number(s.tokens_per_second) + "," + csv_number(s.deviation) + "," + csv_number(s.best) +
             "," + csv_number(s.worst) + "," + csv_number(share) + ",";
    };
    for (const std::string& word : {run.where.model, run.where.backend, run.where.device, run.where.kernels}) text += csv_text(word) + ",";
    text += std::to_string(r.threads) + "," + std::to_string(run.options.batch) + "," + std::to_string(run.options.depth) + "," +
            std::to_string(run.options.repetitions) + ",";
    text += speed(run.options.prompt_tokens, r.prefill, r.prefill_peak_share) +
            speed(run.options.decode_tokens, r.decode, r.decode_bandwidth_share);
    text += csv_number(r.read_bytes_per_second) + "," + csv_number(r.multiply_adds_per_second) + "," + std::to_string(r.bytes_per_step) +
            "," + std::to_string(r.multiply_adds_per_token) + "," + std::to_string(r.peak_resident_bytes) + "," +
            std::to_string(r.peak_device_bytes) + "," + (r.valid != 0 ? "true" : "false") + "\n";
  }
  return text;
}

Json bench_runs_json(const std::vector<BenchRun>& runs) {
  const auto one = [](const BenchRun& run) {
    Json json = bench_json(run.where, run.options, run.result);
    if (!run.plan.is_null()) json["plan"] = run.plan;
    return json;
  };
  if (runs.size() == 1) return one(runs.front());
  Json json;
  json["model"] = runs.front().where.model;
  json["backend"] = runs.front().where.backend;
  json["device"] = runs.front().where.device;
  json["runs"] = Json::array();
  for (const BenchRun& run : runs) json["runs"].push_back(one(run));
  return json;
}

std::string bench_plot(const std::vector<BenchRun>& runs) {
  std::vector<Chart> charts;
  for (const BenchAxis& axis : bench_axes())
    for (const Phase phase : {Phase::prefill, Phase::decode})
      if (axis.concerns(phase) && varies(runs, axis)) charts.push_back(chart_over(runs, axis, phase));
  if (charts.empty())
    for (const Phase phase : {Phase::prefill, Phase::decode}) charts.push_back(chart_over(runs, bench_axes().front(), phase));
  const RanOn& where = runs.front().where;
  return charts_svg(where.model.substr(where.model.find_last_of('/') + 1) + ", " + where.backend + " on " + where.device, charts);
}

}  // namespace quern::cli
