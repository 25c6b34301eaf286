// See html.hpp.
#include "report/html.hpp"

#include "quern/base/markup.hpp"
#include "report/heat_map.hpp"
#include "report/matrix.hpp"
#include "report/op_table.hpp"
#include "report/reasons.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>

namespace quern::conformance {
namespace {

using base::markup;

constexpr std::string_view style =
    R"(.maps{columns:346px;column-gap:16px}.maps section{break-inside:avoid}.maps h3{margin:.4em 0 .1em}.maps svg,.counts svg{max-width:100%;height:auto}
#filters{display:flex;flex-wrap:wrap;gap:8px;position:sticky;top:0;background:var(--paper);padding:8px 0;z-index:1;border-bottom:1px solid var(--line)}
#filters select,#filters input{flex:1 1 120px;min-width:0}.counts{display:flex;flex-wrap:wrap;gap:16px 40px}:target{outline:2px solid var(--c0)}
td.h0{background:var(--h0)}td.h1{background:var(--h1)}td.h2{background:var(--h2)}td.h3{background:var(--h3)}td.h4{background:var(--h4)}
td.h5{background:var(--h5)}td.h6{background:var(--h6)}td.h7{background:var(--h7)}td.h8{background:var(--h8)}
)";

/// Hides what the filters leave out. Without scripts the page shows all.
constexpr std::string_view filter_script =
    R"((()=>{const f=['device','group','result','text'].map(i=>document.getElementById(i));
const fit=()=>{const [d,g,r,t]=f.map(e=>e.value);
for(const e of document.querySelectorAll('.pick')){const s=e.dataset;
e.classList.toggle('hidden',!!(d&&s.device&&s.device!==d||g&&s.group&&s.group!==g||r&&s.result&&s.result!==r||t&&s.name!==undefined&&!s.name.includes(t)))}
for(const e of document.querySelectorAll('svg .row')){const n=e.dataset.name;e.style.opacity=(!t||n.includes(t))&&(!g||n.startsWith(g+'.'))?'':'0.15'}};
for(const e of f)e.addEventListener('input',fit);document.getElementById('filters').classList.remove('hidden')})())";
constexpr std::string_view filter_script_sha256 = "kPP6qQt38vn7rzrZRYJv0UWTgs32PFv+pluqxIPGK5g=";  // a test compares it

std::string cell(const char* tag, const std::string& inside, const char* kind = "") {
  return std::string("<") + tag + (*kind == '\0' ? "" : std::string(" class=\"") + kind + "\"") + ">" + inside + "</" + tag + ">";
}
std::string row_of(const std::string& name, const std::string& value) {
  return "<tr>" + cell("th", markup(name)) + cell("td", "<code>" + markup(value) + "</code>") + "</tr>\n";
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
    for (const std::string& word : {t.label, name, t.driver, t.plugin_id + " " + t.version}) text += cell("td", markup(word));
    text += cell("td", "<code>" + markup(t.sha256) + "</code>") + "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string head_row(const Header& h, const std::vector<std::string>& names) {
  std::string text = "<tr>";
  for (const std::string& name : names) text += cell("th", markup(name));
  for (const Target& t : h.targets) text += cell("th", markup(t.label) + "<br><span class=\"dim\">" + markup(t.device_name) + "</span>");
  return text + "</tr>\n";
}

std::string op_cell(const OpCell& c) {
  if (c.cases == 0) return cell("td", "-", "dim");
  const bool green = c.passed + c.waived == c.cases;
  std::string text = cell("span", std::to_string(c.passed) + "/" + std::to_string(c.cases), green ? "good" : "bad");
  if (c.waived != 0) text += " <span class=\"dim\">" + std::to_string(c.waived) + " waived</span>";
  if (!c.tier.empty()) text += " " + markup(c.tier == "none" ? "no tier" : c.tier);
  if (c.passed != 0) {
    char worst[48];
    std::snprintf(worst, sizeof worst, c.worst == 0 ? " exact" : " %.3g %%", 100 * c.worst);
    text += std::string("<span class=\"dim\">") + worst + "</span>";
  }
  const HeatCell heat{c.cases, c.passed, c.waived, c.worst};
  return cell("td", text, heat.failed() == 0 ? heat_kind(heat).c_str() : "");
}

std::string op_section(const Record& record) {
  std::string text =
      "<details open><summary><b>By op, dtype and format: the numbers</b></summary>\n<p>Passed of all; the accumulation tier that all passed cases attain "
      "(T1: f32 sums in any order, T2: matrix units, T3: f16 sums promoted every 32 terms); the worst error as a share of its bound.</p>\n"
      "<div class=\"wide\"><table>\n" +
      head_row(record.header, {"group", "op", "dtypes", "format"});
  std::string last;  // the first row of an op is where its cells of the heat map lead
  for (const auto& [key, cells] : op_table(record)) {
    const std::string place = key.group + "." + key.op;
    const bool bad = std::ranges::any_of(cells, [](const OpCell& c) { return c.passed + c.waived != c.cases; });
    text += "<tr class=\"pick\" data-group=\"" + markup(key.group) + "\" data-name=\"" +
            markup(place + " " + key.dtypes + " " + key.format) + "\" data-result=\"" + (bad ? "bad" : "good") + "\"" +
            (place == last ? "" : " id=\"op-" + markup(place) + "\"") + ">";
    last = place;
    for (const std::string& word : {key.group, key.op, key.dtypes, key.format}) text += cell("td", markup(word));
    for (const OpCell& c : cells) text += op_cell(c);
    text += "</tr>\n";
  }
  return text + "</table></div></details>\n";
}

std::string reason_table(const Record& record, std::size_t target) {
  std::string text = "<table>\n<tr><th>cases</th><th>reason</th><th>such as</th></tr>\n";
  for (const Reason& r : reasons(record, target))
    text += "<tr>" + cell("td", std::to_string(r.count)) + cell("td", cell("span", status_name(r.status), "bad") + " " + markup(r.text)) +
            cell("td", "<code>" + markup(r.example) + "</code>") + "</tr>\n";
  return text + "</table>\n";
}

std::string time_section(const Record& record) {
  constexpr std::size_t most = 20;
  const std::vector<const RecordedResult*> list = slowest(record, most);
  if (list.empty()) return {};
  std::string text = "<h2>The slowest cases</h2>\n<table>\n<tr><th>time</th><th>device</th><th>case</th></tr>\n";
  for (const RecordedResult* r : list)
    text += "<tr>" + cell("td", duration(r->result.milliseconds)) + cell("td", markup(record.header.targets[r->target].label)) +
            cell("td", "<code>" + markup(r->case_name) + "</code>") + "</tr>\n";
  return text + "</table>\n";
}

/// Of a device: a page that a browser has to lay out. The journal has all.
constexpr std::uint64_t most_failures = 1000;

std::string failure_section(const Record& record) {
  std::string text = "<h2>Not green</h2>\n";
  bool any = false;
  for (std::size_t t = 0; t < record.header.targets.size(); ++t) {
    std::string list;
    std::uint64_t count = 0;
    for (const RecordedResult& r : record.results) {
      if (r.target != t || is_green(r.result.verdict.status)) continue;
      if (++count > most_failures) continue;
      list += "<details class=\"pick\" data-device=\"" + markup(record.header.targets[t].label) + "\" data-group=\"" +
              markup(group_of(r.case_name)) + "\" data-name=\"" + markup(r.case_name) + "\" data-result=\"bad\"><summary>" +
              cell("span", status_name(r.result.verdict.status), "bad") + " <code>" + markup(r.case_name) + "</code></summary>" +
              cell("p", markup(r.result.verdict.text)) +
              (r.result.kernel.empty() ? "" : cell("p", "kernel " + markup(r.result.kernel), "dim")) + "</details>\n";
    }
    if (count > most_failures) list += "<p>and " + std::to_string(count - most_failures) + " more in the journal</p>\n";
    if (count == 0) continue;
    any = true;
    text += "<h3>" + markup(record.header.targets[t].label) + ": " + std::to_string(count) + "</h3>\n" + reason_table(record, t) + list;
  }
  for (const std::string& open : record.unfinished) text += "<p class=\"bad\">not ended: <code>" + markup(open) + "</code></p>\n";
  for (const std::string& device : record.left_out) text += "<p>not tested: " + markup(device) + "</p>\n";
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
    text += "<tr>" + cell("td", markup(what.first)) + cell("td", std::to_string(count)) + cell("td", markup(what.second)) + "</tr>\n";
  return text + "</table>\n";
}

/// How many of the op set and of the formats have a case that ran, on any device.
std::string coverage(const Record& record) {
  static const std::set<std::string> all = {
#define QUERN_OP(id, NAME, name, ...) #name,
#include "quern/ops.def"
#undef QUERN_OP
  };
  std::set<std::string> ops, formats;
  for (const RecordedResult& r : record.results) {
    if (const std::string op = op_key(r.case_name).op; all.contains(op)) ops.insert(op);
    for (const std::size_t column : heat_columns(r.case_name)) formats.insert(heat_formats[column]);
  }
  for (const char* none : {"int", "other"}) formats.erase(none);
  return "<p>Ops with a case that ran: " + std::to_string(ops.size()) + " of " + std::to_string(all.size()) +
         ". Float and block formats: " + std::to_string(formats.size()) + " of " + std::to_string(heat_formats.size() - 2) + ".</p>\n";
}

std::string choice(const char* id, const char* all, const std::set<std::string>& words) {
  std::string text = std::string("<select id=\"") + id + "\" aria-label=\"" + id + "\"><option value=\"\">" + all + "</option>";
  for (const std::string& word : words) text += "<option>" + markup(word) + "</option>";
  return text + "</select>\n";
}

std::string filters(const Record& record) {
  std::set<std::string> devices, groups;
  for (const Target& t : record.header.targets) devices.insert(t.label);
  for (const RecordedResult& r : record.results) groups.insert(group_of(r.case_name));
  return "<div id=\"filters\" class=\"hidden\">" + choice("device", "all devices", devices) + choice("group", "all groups", groups) +
         "<select id=\"result\" aria-label=\"result\"><option value=\"\">all results</option><option value=\"bad\">not green</option></select>\n"
         "<input id=\"text\" aria-label=\"part of a name\" placeholder=\"part of a name\"></div>\n";
}

std::string heat_section(const Record& record) {
  return "<h2>By group</h2>\n" + heat_legend() + group_heat_map(record) +
         "<h2>By op and format</h2>\n<p>A case stands under its block formats, or else under its float types. "
         "A cell leads to its numbers below. What is rounded to the output's type may reach its whole bound, and no case may exceed it.</p>\n" +
         op_heat_maps(record);
}

}  // namespace

std::string html_page(const Record& record) {
  const Matrix matrix(record);
  const bool green = matrix.green() && record.unfinished.empty();
  std::string devices;
  for (const Target& t : record.header.targets) devices += (devices.empty() ? "" : ", ") + t.label;
  const std::string body = "<h1>" + markup("Conformance of " + devices) + ": " +
                           cell("span", green ? "green" : "not green", green ? "good" : "bad") + " <span class=\"dim\">(" +
                           markup(share_of_profile(record.header)) + ")</span></h1>\n<div class=\"counts\">" + count_bars(record) +
                           "</div>\n" + coverage(record) + filters(record) + failure_section(record) + heat_section(record) +
                           op_section(record) + waiver_section(record) + time_section(record) + "<h2>Devices</h2>\n" +
                           device_table(record.header) + "<h2>The run</h2>\n" + run_table(record);
  const std::string title = "quern-conformance: " + devices;
  return base::HtmlPage{.title = title, .style = style, .script = filter_script, .script_sha256 = filter_script_sha256, .body = body}
      .text();
}

}  // namespace quern::conformance
