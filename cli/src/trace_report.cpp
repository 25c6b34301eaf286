#include "trace_report.hpp"

#include "numbers.hpp"

#include "quern/base/markup.hpp"
#include "quern/base/svg.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::cli {
namespace {

using base::markup, base::Svg;

enum class SpanKind { prompt, decode, micro_batch, update, evaluation, run, copy, page, other };

/// What the host takes one behind the other.
struct StepKind {
  SpanKind kind;
  const char* span;  // its name in the file
  const char *one, *many;
  const char* member;  // of the JSON
  const char* colour;
  TraceShare TraceSummary::*share;
};
constexpr StepKind step_kinds[] = {
    {SpanKind::prompt, "step", "step of the prompt", "steps of the prompt", "prompt", "s1 fill", &TraceSummary::prompt},
    {SpanKind::decode, "decode step", "decode step", "decode steps", "decode", "s0 fill", &TraceSummary::decode},
    {SpanKind::micro_batch, "micro-batch", "micro-batch", "micro-batches", "micro_batches", "s1 fill", &TraceSummary::micro_batches},
    {SpanKind::update, "update", "update", "updates", "updates", "s0 fill", &TraceSummary::updates},
    {SpanKind::evaluation, "evaluation", "evaluation", "evaluations", "evaluations", "s3 fill", &TraceSummary::evaluations},
};

const StepKind* step_of(SpanKind kind) {
  const auto* found = std::ranges::find(step_kinds, kind, &StepKind::kind);
  return found == std::end(step_kinds) ? nullptr : found;
}

SpanKind span_kind(const RecordedTrace& trace, const TraceSpan& span) {
  const std::string& name = trace.names[span.name];
  if (span.track == 0)
    for (const StepKind& step : step_kinds)
      if (name == step.span) return step.kind;
  if (span.track == 0 && name.starts_with("copy ")) return SpanKind::page;
  if (name.starts_with("run ")) return SpanKind::run;
  if (name.starts_with("copy ")) return SpanKind::copy;
  return SpanKind::other;
}

/// Class of the colour.
const char* colour_of(SpanKind kind) {
  if (const StepKind* step = step_of(kind)) return step->colour;
  switch (kind) {
    case SpanKind::run: return "s2 fill";
    case SpanKind::copy:
    case SpanKind::page: return "s4 fill";
    default: return "s7 fill";
  }
}

bool is_step(SpanKind kind) { return step_of(kind) != nullptr; }

/// All steps together.
TraceShare steps_of(const TraceSummary& s) {
  TraceShare sum;
  for (const StepKind& step : step_kinds) {
    sum.spans += (s.*step.share).spans;
    sum.time += (s.*step.share).time;
  }
  return sum;
}

/// Whose nodes and kernels the file has.
const char* kernels_of(const TraceSummary& s) {
  const bool training = s.micro_batches.spans + s.updates.spans + s.evaluations.spans > 0;
  return training ? "All graphs of the run" : "A step of one row";
}

double mean_of(const TraceShare& share) { return share.spans == 0 ? 0 : share.time / static_cast<double>(share.spans); }

std::string percent_of(double part, double whole) { return whole > 0 ? fixed(100 * part / whole, 1) + " %" : "-"; }

std::string counted(std::uint64_t count, const char* one, const char* many) { return with_commas(count) + " " + (count == 1 ? one : many); }

/// The rows of the table of shares; the first is its head.
std::vector<std::vector<std::string>> share_rows(const TraceSummary& s) {
  std::vector<std::vector<std::string>> rows{{"where", "times", "rows", "time", "of all", "mean", "longest"}};
  const auto add = [&](const std::string& name, const TraceShare& share, bool with_rows) {
    if (share.spans == 0) return;
    rows.push_back({name, with_commas(share.spans), with_rows ? with_commas(share.rows) : "", duration_text(share.time),
                    percent_of(share.time, s.length), duration_text(mean_of(share)), duration_text(share.longest)});
  };
  for (const StepKind& step : step_kinds) add(step.many, s.*step.share, step.kind != SpanKind::update);
  rows.push_back({"outside of steps", "", "", duration_text(s.outside), percent_of(s.outside, s.length), "", ""});
  for (const TraceSummary::Device& device : s.devices) {
    add("in them, computing on " + device.name, device.runs, false);
    add("in them, copies to " + device.name, device.copies, false);
  }
  add("copies of shared pages", s.pages, false);
  return rows;
}

/// What a steady decode does not do.
std::string remarks(const RecordedTrace& trace) {
  std::string text;
  const auto count = [&](const char* name) {
    const auto found = trace.counts.find(name);
    return found == trace.counts.end() ? std::uint64_t{0} : found->second;
  };
  if (const auto n = count("compiles"); n != 0) text += "Within steps, plans were compiled " + counted(n, "time", "times") + ".\n";
  if (const auto n = count("device_allocations") + count("host_allocations"); n != 0)
    text += "Within steps, memory was allocated " + counted(n, "time", "times") + ".\n";
  if (const auto n = count("bytes_between_devices"); n != 0) text += byte_words(n) + " went from device to device.\n";
  if (trace.left_out != 0) text += counted(trace.left_out, "event is no span", "events are no spans") + " and left out.\n";
  return text;
}

// The page's pictures.

constexpr double track_height = 26, track_head = 16, time_axis = 22;

/// 1, 2 or 5 times a power of ten of microseconds, so that marks are some 90 units apart.
double mark_every(double microseconds_a_unit) {
  const double least = microseconds_a_unit * 90, power = std::pow(10, std::floor(std::log10(std::max(least, 1e-3))));
  for (const double times : {1.0, 2.0, 5.0, 10.0})
    if (power * times >= least) return power * times;
  return power * 10;
}

/// Marks are round: "200 ms", not "200.0 ms".
std::string mark_text(double microseconds) {
  if (microseconds < 1000) return fixed(microseconds, 0) + " us";
  return microseconds < 1e6 ? fixed(microseconds / 1e3, 0) + " ms" : fixed(microseconds / 1e6, microseconds < 1e7 ? 1 : 0) + " s";
}

std::string span_tip(const RecordedTrace& trace, const TraceSpan& span, double origin) {
  std::string tip = trace.names[span.name] + ": " + duration_text(span.length) + " from " + duration_text(span.start - origin);
  if (span.rows != 0) tip += ", " + counted(span.rows, "row", "rows");
  return tip;
}

/// All tracks, one below the other, `width` units wide.
std::string timeline(const RecordedTrace& trace, const TraceSummary& s, double width) {
  const double origin = trace.spans.front().start, scale = s.length > 0 ? width / s.length : 0;
  Svg svg(width, (track_height + track_head) * static_cast<double>(trace.tracks.size()) + time_axis, "timeline");
  const double bottom = (track_height + track_head) * static_cast<double>(trace.tracks.size());
  const double every = mark_every(scale > 0 ? 1 / scale : 1);
  for (int k = 0; k < 1000 && scale > 0 && every * k <= s.length; ++k) {
    const double x = every * k * scale;
    svg.line({x, 0}, {x, bottom}, "grid").text({x + 3, bottom + 14}, mark_text(every * k), "small dim");
  }
  double top = 0;
  std::size_t drawn = 0;
  for (const auto& [track, name] : trace.tracks) {
    svg.text({4, top + 12}, name, "small");
    double end = -1;  // of the last rectangle; what lies wholly within a third of a unit behind it adds nothing that can be seen
    for (const TraceSpan& span : trace.spans) {
      if (span.track != track) continue;
      const double x = (span.start - origin) * scale, right = x + span.length * scale;
      if (right < end + 0.33 || drawn == most_drawn_spans) continue;
      ++drawn;
      end = std::max(end, right);
      svg.rectangle({x, top + track_head}, std::max(0.4, right - x), track_height - 4, colour_of(span_kind(trace, span)),
                    span_tip(trace, span, origin));
    }
    top += track_height + track_head;
  }
  return svg.inside_a_page();
}

/// A bar a step, as high as it was long; of many steps the longest of each group.
std::string step_bars(const RecordedTrace& trace) {
  std::vector<const TraceSpan*> steps;
  for (const TraceSpan& span : trace.spans)
    if (is_step(span_kind(trace, span))) steps.push_back(&span);
  if (steps.empty()) return {};
  constexpr double wide = 720, high = 110, left = 64;
  constexpr std::size_t most_bars = 640;
  const std::size_t group = (steps.size() + most_bars - 1) / most_bars, bars = (steps.size() + group - 1) / group;
  std::vector<const TraceSpan*> shown;
  for (std::size_t b = 0; b < bars; ++b) {
    const auto first = steps.begin() + static_cast<std::ptrdiff_t>(b * group);
    shown.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(std::min(group, steps.size() - b * group)),
                                      [](const TraceSpan* a, const TraceSpan* c) { return a->length < c->length; }));
  }
  // Decode steps decide the scale, where there are any: a long prompt is cut, and its tip has its time.
  double most = 0;
  const bool any_decode = std::ranges::any_of(shown, [&](const TraceSpan* span) { return span_kind(trace, *span) == SpanKind::decode; });
  for (const TraceSpan* span : shown)
    if (!any_decode || span_kind(trace, *span) == SpanKind::decode) most = std::max(most, span->length);
  if (!(most > 0)) most = 1;
  Svg svg(wide, high + 40, "time of each step");
  svg.text({left - 6, 20}, duration_text(most), "small dim end").text({left - 6, high + 8}, "0", "small dim end");
  svg.line({left, 8}, {wide, 8}, "grid").line({left, high + 8}, {wide, high + 8}, "axis");
  const double each = (wide - left) / static_cast<double>(bars);
  for (std::size_t b = 0; b < bars; ++b) {
    const TraceSpan& span = *shown[b];
    const double height = high * std::min(1.0, span.length / most);
    svg.rectangle({left + each * static_cast<double>(b), 8 + high - height}, std::max(0.5, each * 0.85), height,
                  colour_of(span_kind(trace, span)),
                  (group == 1 ? "step " : "slowest of the steps from ") + with_commas(b * group + 1) + ": " +
                      span_tip(trace, span, trace.spans.front().start));
  }
  svg.text({left, high + 26}, "first step", "small dim")
      .text({wide, high + 26}, with_commas(steps.size()) + (steps.size() == 1 ? " step" : " steps"), "small dim end");
  return svg.inside_a_page();
}

std::string colour_key(const TraceSummary& s) {
  Svg svg(352, 40, "colours");
  double x = 0;
  for (const StepKind& step : step_kinds) {
    if ((s.*step.share).spans == 0) continue;
    svg.rectangle({x, 2}, 12, 12, step.colour).text({x + 17, 12}, step.one, "small");
    x += 130;
  }
  x = 0;
  for (const auto& [kind, word] :
       {std::pair{SpanKind::run, "computing on a device"}, std::pair{SpanKind::copy, "copy"}, std::pair{SpanKind::other, "other"}}) {
    svg.rectangle({x, 22}, 12, 12, colour_of(kind)).text({x + 17, 32}, word, "small");
    x += kind == SpanKind::copy ? 60 : 150;
  }
  return svg.inside_a_page();
}

}  // namespace

void TraceShare::add(const TraceSpan& span) {
  ++spans;
  rows += std::min(span.rows, UINT64_MAX - rows);
  time += span.length;
  longest = std::max(longest, span.length);
}

TraceSummary summary_of(const RecordedTrace& trace) {
  TraceSummary s;
  std::map<std::uint32_t, std::size_t> at;
  for (const auto& [track, name] : trace.tracks) {
    if (track == 0) continue;
    at[track] = s.devices.size();
    s.devices.push_back({name, {}, {}});
  }
  double end = 0, covered = trace.spans.front().start, in_steps = 0;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const TraceSpan& span = trace.spans[i];
    end = std::max(end, span.start + span.length);
    const SpanKind kind = span_kind(trace, span);
    if (is_step(kind)) {
      (s.*step_of(kind)->share).add(span);
      s.slowest.push_back(i);
      in_steps += std::max(0.0, span.start + span.length - std::max(covered, span.start));  // spans come by rising start
      covered = std::max(covered, span.start + span.length);
    }
    if (kind == SpanKind::page) s.pages.add(span);
    if (span.track == 0) continue;
    TraceSummary::Device& device = s.devices[at.at(span.track)];
    (kind == SpanKind::copy ? device.copies : device.runs).add(span);
  }
  s.length = end - trace.spans.front().start;
  s.outside = std::max(0.0, s.length - in_steps);
  std::ranges::stable_sort(s.slowest, [&](std::size_t a, std::size_t b) { return trace.spans[a].length > trace.spans[b].length; });
  if (s.slowest.size() > 5) s.slowest.resize(5);
  std::map<std::pair<std::string, std::string>, std::pair<std::uint64_t, std::uint64_t>> kernels;
  for (const TraceKernel& kernel : trace.kernels) {
    auto& [count, nodes] = kernels[{kernel.kernel, kernel.device}];
    ++count;
    nodes += std::min(kernel.nodes, UINT64_MAX - nodes);
  }
  for (const auto& [who, sums] : kernels) s.kernels.push_back({who.first, who.second, sums.first, sums.second});
  std::ranges::stable_sort(s.kernels, [](const auto& a, const auto& b) { return a.nodes > b.nodes; });
  return s;
}

std::string duration_text(double microseconds) {
  if (microseconds == 0) return "0 ms";
  if (microseconds < 1000) return fixed(microseconds, microseconds < 10 ? 1 : 0) + " us";
  if (microseconds < 10'000) return fixed(microseconds / 1e3, 2) + " ms";
  if (microseconds < 1e6) return fixed(microseconds / 1e3, 1) + " ms";
  return fixed(microseconds / 1e6, 2) + " s";
}

std::string trace_words(const std::string& name, const RecordedTrace& trace) {
  const TraceSummary s = summary_of(trace);
  std::string text = printable(name) + ": " + counted(steps_of(s).spans, "step", "steps") + " in " + duration_text(s.length);
  if (s.decode.spans != 0 && s.decode.time > 0)
    text += "; decode " + fixed(static_cast<double>(s.decode.rows) / s.decode.time * 1e6, 1) + " rows/s";
  text += "\n\n";
  auto rows = share_rows(s);
  std::vector<std::size_t> widths(rows.front().size());
  for (auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = printable(row[c]);
      widths[c] = std::max(widths[c], columns_of(row[c]));
    }
  for (const auto& row : rows) {
    std::string line = row[0] + std::string(widths[0] - columns_of(row[0]), ' ');
    for (std::size_t c = 1; c < row.size(); ++c) line += "  " + std::string(widths[c] - row[c].size(), ' ') + row[c];
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  text += "\nSlowest steps\n";
  for (const std::size_t i : s.slowest) text += "  " + printable(span_tip(trace, trace.spans[i], trace.spans.front().start)) + "\n";
  if (!s.kernels.empty()) {
    text += "\n" + std::string(kernels_of(s)) + ": " + counted(trace.nodes, "node", "nodes") + ", which " +
            counted(trace.kernels.size(), "kernel call computes", "kernel calls compute") + "\n";
    for (std::size_t k = 0; k < std::min<std::size_t>(s.kernels.size(), 12); ++k)
      text += "  " + with_commas(s.kernels[k].count) + " x " + printable(s.kernels[k].kernel) + " on " + printable(s.kernels[k].device) +
              ", " + counted(s.kernels[k].nodes, "node", "nodes") + "\n";
    if (s.kernels.size() > 12) text += "  and " + counted(s.kernels.size() - 12, "other kernel", "other kernels") + "\n";
  }
  const std::string more = remarks(trace);
  return more.empty() ? text : text + "\n" + more;
}

Json trace_report_json(const std::string& name, const RecordedTrace& trace) {
  const TraceSummary s = summary_of(trace);
  const auto share = [](const TraceShare& one) {
    return Json{{"times", one.spans}, {"rows", one.rows}, {"seconds", one.time / 1e6}, {"longest_seconds", one.longest / 1e6}};
  };
  Json json;
  json["trace"] = name;
  json["seconds"] = s.length / 1e6;
  for (const StepKind& step : step_kinds) json[step.member] = share(s.*step.share);
  json["outside_seconds"] = s.outside / 1e6;
  json["devices"] = Json::array();
  for (const TraceSummary::Device& device : s.devices)
    json["devices"].push_back({{"name", device.name}, {"runs", share(device.runs)}, {"copies", share(device.copies)}});
  json["pages"] = share(s.pages);
  json["counts"] = trace.counts;
  json["nodes"] = trace.nodes;
  json["kernels"] = Json::array();
  for (const TraceSummary::Kernels& k : s.kernels)
    json["kernels"].push_back({{"kernel", k.kernel}, {"device", k.device}, {"calls", k.count}, {"nodes", k.nodes}});
  return json;
}

std::string trace_page(const std::string& name, const RecordedTrace& trace) {
  const TraceSummary s = summary_of(trace);
  std::string body = "<h1>" + markup(name) + ": " + counted(steps_of(s).spans, "step", "steps") + " in " + duration_text(s.length) +
                     "</h1>\n<h2>Where the time went</h2>\n<div class=\"wide\"><table>\n";
  const auto rows = share_rows(s);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    body += "<tr>";
    for (const std::string& cell : rows[r]) body += (r == 0 ? "<th>" : "<td>") + markup(cell) + (r == 0 ? "</th>" : "</td>");
    body += "</tr>\n";
  }
  body += "</table></div>\n";
  if (const std::string more = remarks(trace); !more.empty()) body += "<p>" + markup(more) + "</p>\n";
  body += "<h2>Time of each step</h2>\n" + colour_key(s) + "<div class=\"wide\">" + step_bars(trace) + "</div>\n";
  // So wide that a mean step has 14 units; a browser scrolls it.
  const TraceShare all = steps_of(s);
  const double mean = all.spans > 0 ? mean_of(all) : s.length;
  const double width = std::clamp(mean > 0 ? s.length / mean * 14 : 0, 1100.0, 16000.0);
  body += "<h2>Timeline</h2>\n<p>Rest on a bar for its name and time; scroll to the right for what came later.</p>\n<div class=\"wide\">" +
          timeline(trace, s, width) + "</div>\n";
  if (!s.kernels.empty()) {
    body += "<h2>" + std::string(kernels_of(s)) + "</h2>\n<p>" + counted(trace.nodes, "node", "nodes") + ", which " +
            counted(trace.kernels.size(), "kernel call computes", "kernel calls compute") +
            ".</p>\n<div class=\"wide\"><table>\n<tr><th>kernel</th><th>device</th><th>calls</th><th>nodes</th></tr>\n";
    for (std::size_t k = 0; k < std::min<std::size_t>(s.kernels.size(), 200); ++k)
      body += "<tr><td><code>" + markup(s.kernels[k].kernel) + "</code></td><td>" + markup(s.kernels[k].device) + "</td><td>" +
              with_commas(s.kernels[k].count) + "</td><td>" + with_commas(s.kernels[k].nodes) + "</td></tr>\n";
    body += "</table></div>\n";
  }
  return base::HtmlPage{
      .title = trace_page_title + name, .style = "td{white-space:nowrap}\n", .script = {}, .script_sha256 = {}, .body = body}
      .text();
}

}  // namespace quern::cli
