// See html.hpp.
#include "report/html.hpp"

#include "report/escape.hpp"
#include "report/matrix.hpp"
#include "report/op_table.hpp"

#include <cstdio>

namespace quern::conformance {
namespace {

constexpr const char* style =
    R"(:root{color-scheme:light dark;--good:#1a7f37;--bad:#cf222e;--dim:#6e7781;--line:#d0d7de;--head:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--good:#3fb950;--bad:#f85149;--dim:#8b949e;--line:#30363d;--head:#161b22}}
body{font:14px/1.45 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--line);padding:.25em .6em;text-align:left;vertical-align:top}
th{background:var(--head);position:sticky;top:0}
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.dim{color:var(--dim)}
code{font:12px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
.wide{overflow-x:auto}details{margin:.3em 0}summary{cursor:pointer}
)";

std::string cell(const char* tag, const std::string& inside, const char* kind = "") {
  return std::string("<") + tag + (*kind == '\0' ? "" : std::string(" class=\"") + kind + "\"") + ">" + inside + "</" + tag + ">";
}
std::string row_of(const std::string& name, const std::string& value) {
  return "<tr>" + cell("th", escaped(name)) + cell("td", "<code>" + escaped(value) + "</code>") + "</tr>\n";
}

std::string pairs(const std::map<std::string, std::string>& map) {
  std::string text;
  for (const auto& [key, value] : map) text += (text.empty() ? "" : " ") + key + "=" + value;
  return text.empty() ? "none" : text;
}

std::string run_table(const Record& record) {
  const Header& h = record.header;
  std::string text = "<table>\n";
  text += row_of("suite", h.suite + ", build " + h.build) + row_of("profile", h.profile + ": " + h.manifest);
  text += row_of("cases of this run", std::to_string(h.cases) + ", selection " + h.selection);
  text += row_of("seed, repeat", std::to_string(h.seed) + ", " + std::to_string(h.repeat));
  text += row_of("plugin options", pairs(h.options)) + row_of("environment", pairs(h.environment));
  for (const std::string& when : record.started) text += row_of("started", when);
  text += row_of("journal", "SHA-256 " + record.sha256) + "</table>\n";
  return text;
}

std::string device_table(const Header& h) {
  std::string text = "<div class=\"wide\"><table>\n<tr>";
  for (const char* head : {"device", "name", "driver", "plugin", "SHA-256 of the plugin"}) text += cell("th", head);
  text += "</tr>\n";
  for (const Target& t : h.targets) {
    const std::string name = t.device_name + (t.architecture.empty() ? "" : ", " + t.architecture);
    text += "<tr>";
    for (const std::string& word : {t.label, name, t.driver, t.plugin_id + " " + t.version}) text += cell("td", escaped(word));
    text += cell("td", "<code>" + escaped(t.sha256) + "</code>") + "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string head_row(const Header& h, const std::vector<std::string>& names) {
  std::string text = "<tr>";
  for (const std::string& name : names) text += cell("th", escaped(name));
  for (const Target& t : h.targets) text += cell("th", escaped(t.label) + "<br><span class=\"dim\">" + escaped(t.device_name) + "</span>");
  return text + "</tr>\n";
}

std::string op_cell(const OpCell& c) {
  if (c.cases == 0) return cell("td", "-", "dim");
  const bool green = c.passed + c.waived == c.cases;
  std::string text = cell("span", std::to_string(c.passed) + "/" + std::to_string(c.cases), green ? "good" : "bad");
  if (c.waived != 0) text += " <span class=\"dim\">" + std::to_string(c.waived) + " waived</span>";
  if (!c.tier.empty()) text += " " + escaped(c.tier == "none" ? "no tier" : c.tier);
  if (c.passed != 0) {
    char worst[48];
    std::snprintf(worst, sizeof worst, c.worst == 0 ? " exact" : " %.3g %%", 100 * c.worst);
    text += std::string("<span class=\"dim\">") + worst + "</span>";
  }
  return cell("td", text);
}

std::string op_section(const Record& record) {
  std::string text = "<h2>By op, dtype and format</h2>\n<p>Passed of all; the accumulation tier that all passed cases attain "
                     "(T1: f32 sums in any order, T2: matrix units, T3: f16 sums promoted every 32 terms); the worst error as a share of its bound.</p>\n"
                     "<div class=\"wide\"><table>\n" +
                     head_row(record.header, {"group", "op", "dtypes", "format"});
  for (const auto& [key, cells] : op_table(record)) {
    text += "<tr>";
    for (const std::string& word : {key.group, key.op, key.dtypes, key.format}) text += cell("td", escaped(word));
    for (const OpCell& c : cells) text += op_cell(c);
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string failure_section(const Record& record) {
  std::string text = "<h2>Not green</h2>\n";
  bool any = false;
  for (std::size_t t = 0; t < record.header.targets.size(); ++t) {
    std::string list;
    std::uint64_t count = 0;
    for (const RecordedResult& r : record.results) {
      if (r.target != t || is_green(r.result.verdict.status)) continue;
      ++count;
      list += "<details><summary>" + cell("span", status_name(r.result.verdict.status), "bad") + " <code>" + escaped(r.case_name) +
              "</code></summary>" + cell("p", escaped(r.result.verdict.text)) +
              (r.result.kernel.empty() ? "" : cell("p", "kernel " + escaped(r.result.kernel), "dim")) + "</details>\n";
    }
    if (count == 0) continue;
    any = true;
    text += "<h3>" + escaped(record.header.targets[t].label) + ": " + std::to_string(count) + "</h3>\n" + list;
  }
  for (const std::string& open : record.unfinished) text += "<p class=\"bad\">not ended: <code>" + escaped(open) + "</code></p>\n";
  for (const std::string& device : record.left_out) text += "<p>not tested: " + escaped(device) + "</p>\n";
  const bool nothing = !any && record.unfinished.empty() && record.left_out.empty();
  return nothing ? text + "<p>Nothing.</p>\n" : text;
}

/// How much of the profile the run chose, for the headline. The manifest begins with the profile's count of cases.
std::string share_of_profile(const Header& h) {
  const std::string all = h.manifest.substr(0, h.manifest.find(' '));
  const std::string chosen = std::to_string(h.cases);
  return chosen == all ? "all " + all + " cases of profile " + h.profile : chosen + " of " + all + " cases of profile " + h.profile;
}

std::string waiver_section(const Record& record) {
  std::map<std::pair<std::string, std::string>, std::uint64_t> reasons;
  for (const RecordedResult& r : record.results)
    if (r.result.verdict.status == Status::waived) ++reasons[{record.header.targets[r.target].label, r.result.verdict.text}];
  if (reasons.empty()) return {};
  std::string text = "<h2>Waived</h2>\n<table>\n<tr><th>device</th><th>cases</th><th>reason</th></tr>\n";
  for (const auto& [what, count] : reasons)
    text += "<tr>" + cell("td", escaped(what.first)) + cell("td", std::to_string(count)) + cell("td", escaped(what.second)) + "</tr>\n";
  return text + "</table>\n";
}

}  // namespace

std::string html_page(const Record& record) {
  const Matrix matrix(record);
  const bool green = matrix.green() && record.unfinished.empty();
  std::string devices;
  for (const Target& t : record.header.targets) devices += (devices.empty() ? "" : ", ") + t.label;
  std::string text = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
                     "\n<title>" + escaped("quern-conformance: " + devices) + "</title>\n<style>" + style + "</style></head><body>\n<h1>" +
                     escaped("Conformance of " + devices) + ": " + cell("span", green ? "green" : "not green", green ? "good" : "bad") +
          " <span class=\"dim\">(" + escaped(share_of_profile(record.header)) + ")</span></h1>\n";
  text += run_table(record) + "<h2>Devices</h2>\n" + device_table(record.header);
  text += "<h2>By group</h2>\n<pre>" + escaped(matrix.text()) + "</pre>\n";
  return text + failure_section(record) + op_section(record) + waiver_section(record) + "</body></html>\n";
}

}  // namespace quern::conformance
