// See heat_map.hpp.
#include "report/heat_map.hpp"

#include "quern/base/markup.hpp"
#include "quern/base/svg.hpp"
#include "report/matrix.hpp"
#include "report/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace quern::conformance {
namespace {

using base::markup, base::Svg;

/// The most that a colour stands for, as a share of the bound; the last one is the bound itself.
constexpr std::array heat_steps = {0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0};

std::string thousands(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string share_words(double worst) {
  if (worst == 0) return "no error";
  char text[48];
  std::snprintf(text, sizeof text, "worst error %.2g %% of its bound", 100 * worst);
  return text;
}

std::string cell_words(const HeatCell& cell) {
  if (cell.cases == 0) return "no case";
  std::string text = thousands(cell.passed) + " of " + thousands(cell.cases) + (cell.cases == 1 ? " case passed" : " cases passed");
  if (cell.failed() != 0) text += ", " + thousands(cell.failed()) + " not green";
  if (cell.waived != 0) text += ", " + thousands(cell.waived) + " waived";
  return cell.passed == 0 ? text : text + ", " + share_words(cell.worst);
}

/// A name in so many columns: long ones lose their middle.
std::string shortened(const std::string& name, std::size_t most) {
  return name.size() <= most ? name : name.substr(0, most / 2) + ".." + name.substr(name.size() - (most - 2 - most / 2));
}

std::string anchor(const std::string& group, const std::string& op) { return "op-" + group + "." + op; }

constexpr double heat_step = 16, label_width = 138, head_height = 42;

/// The columns in which one of these rows has a case.
std::vector<std::size_t> used_columns(const std::map<std::string, HeatRow>& rows) {
  std::vector<std::size_t> used;
  for (std::size_t c = 0; c < heat_formats.size(); ++c)
    if (std::ranges::any_of(rows, [c](const auto& row) { return row.second[c].cases != 0; })) used.push_back(c);
  return used;
}

std::string group_picture(const std::string& device, const std::string& group, const std::map<std::string, HeatRow>& rows) {
  const std::vector<std::size_t> columns = used_columns(rows);
  const double width = label_width + heat_step * static_cast<double>(columns.size()) + 24;  // the last name leans out
  Svg svg(width, head_height + heat_step * static_cast<double>(rows.size()) + 4, group + " on " + device);
  double x = label_width;
  for (const std::size_t c : columns) {
    svg.turned_text({x + heat_step * 0.75, head_height - 5}, -60, heat_formats[c], "small dim");
    x += heat_step;
  }
  double y = head_height;
  for (const auto& [op, cells] : rows) {
    svg.begin_group("row", group + "." + op).text({label_width - 5, y + heat_step - 4}, shortened(op, 21), "small end");
    x = label_width;
    for (const std::size_t c : columns) {
      const HeatCell& cell = cells[c];
      if (cell.cases == 0) {
        svg.rectangle({x, y}, heat_step, heat_step, "cell none");
      } else {
        svg.begin_link(anchor(group, op));
        svg.rectangle({x, y}, heat_step, heat_step, "cell " + heat_kind(cell),
                      op + " " + heat_formats[c] + " on " + device + ": " + cell_words(cell));
        if (cell.failed() != 0) svg.text({x + heat_step / 2, y + heat_step - 4}, "x", "mark middle");
        svg.end_link();
      }
      x += heat_step;
    }
    svg.end_group();
    y += heat_step;
  }
  return svg.inside_a_page();
}

}  // namespace

void HeatCell::add(const Verdict& verdict) {
  ++cases;
  waived += verdict.status == Status::waived || verdict.status == Status::unsupported;
  if (verdict.status != Status::pass) return;
  ++passed;
  worst = std::fmax(worst, verdict.worst);
}

std::vector<std::size_t> heat_columns(const std::string& case_name) {
  const OpKey key = op_key(case_name);
  const auto column_of = [](std::string_view word) {
    return static_cast<std::size_t>(std::ranges::find(heat_formats, word, [](const char* name) { return std::string_view(name); }) -
                                    heat_formats.begin());
  };
  std::vector<std::size_t> columns;
  for (const std::string& list : {key.format, key.dtypes}) {
    std::istringstream words(list);
    for (std::string word; words >> word;)
      if (const std::size_t column = column_of(word); column < heat_formats.size()) columns.push_back(column);
    if (!columns.empty()) return columns;
  }
  return {column_of(key.dtypes == "-" ? "other" : "int")};
}

std::map<std::string, std::map<std::string, HeatRow>> heat_of_ops(const Record& record, std::size_t target) {
  std::map<std::string, std::map<std::string, HeatRow>> heat;
  for (const RecordedResult& r : record.results) {
    if (r.target != target) continue;
    HeatRow& row = heat[group_of(r.case_name)][op_key(r.case_name).op];
    for (const std::size_t column : heat_columns(r.case_name)) row[column].add(r.result.verdict);
  }
  return heat;
}

std::string heat_kind(const HeatCell& cell) {
  if (cell.cases == 0) return "none";
  if (cell.failed() != 0) return "failed";
  if (cell.passed == 0) return "waived";
  const auto found = std::ranges::find_if(heat_steps, [&](double most) { return cell.worst <= most; });
  return "h" + std::to_string(std::min<std::ptrdiff_t>(found - heat_steps.begin(), std::ssize(heat_steps) - 1));
}

std::string heat_legend() {
  constexpr double box = 28, left = 6;
  Svg svg(362, 62, "what the colours mean");
  svg.text({left, 12}, "worst error, in % of its bound", "small dim");
  for (std::size_t i = 0; i < heat_steps.size(); ++i) {
    const double x = left + box * static_cast<double>(i);
    svg.rectangle({x, 18}, box, 14, "cell h" + std::to_string(i));
    svg.text({x + box / 2, 44}, i == 0 ? "0" : std::to_string(std::lround(100 * heat_steps[i])), "small dim middle");
  }
  double x = left + box * heat_steps.size() + 14;
  for (const auto& [kind, word] : {std::pair{"failed", "not green"}, std::pair{"waived", "waived"}, std::pair{"none", "no case"}}) {
    const double y = kind == std::string("failed") ? 4 : kind == std::string("waived") ? 22 : 40;
    svg.rectangle({x, y}, 14, 14, std::string("cell ") + kind).text({x + 20, y + 11}, word, "small dim");
    if (kind == std::string("failed")) svg.text({x + 7, y + 11}, "x", "mark middle");
  }
  return svg.inside_a_page();
}

std::string group_heat_map(const Record& record) {
  const std::size_t devices = record.header.targets.size();
  std::map<std::string, std::vector<HeatCell>> groups;
  for (const RecordedResult& r : record.results) {
    auto& cells = groups[group_of(r.case_name)];
    cells.resize(devices);
    cells[r.target].add(r.result.verdict);
  }
  constexpr double wide = 112, high = 19, label = 96, head = 24;
  Svg svg(label + wide * static_cast<double>(devices) + 4, head + high * static_cast<double>(groups.size()) + 4, "groups by devices");
  for (std::size_t t = 0; t < devices; ++t)
    svg.text({label + wide * (static_cast<double>(t) + 0.5), head - 8}, shortened(record.header.targets[t].label, 16), "small middle");
  double y = head;
  for (const auto& [group, cells] : groups) {
    svg.begin_group("row", group + ".").text({label - 5, y + high - 6}, shortened(group, 15), "small end");
    for (std::size_t t = 0; t < devices; ++t) {
      const HeatCell& cell = cells[t];
      const double x = label + wide * static_cast<double>(t);
      svg.rectangle({x, y}, wide, high, "cell " + heat_kind(cell),
                    group + " on " + record.header.targets[t].label + ": " + cell_words(cell));
      if (cell.cases == 0) continue;
      const std::string counts = thousands(cell.passed) + "/" + thousands(cell.cases) + (cell.failed() == 0 ? "" : " x");
      svg.text({x + wide / 2, y + high - 6}, counts, cell.failed() == 0 ? "small middle" : "small mark middle");
    }
    svg.end_group();
    y += high;
  }
  return "<div class=\"wide\">" + svg.inside_a_page() + "</div>\n";
}

std::string op_heat_maps(const Record& record) {
  std::string text = "<div class=\"maps\">\n";
  for (std::size_t t = 0; t < record.header.targets.size(); ++t) {
    const std::string& device = record.header.targets[t].label;
    for (const auto& [group, rows] : heat_of_ops(record, t))
      text += "<section class=\"pick\" data-device=\"" + markup(device) + "\" data-group=\"" + markup(group) + "\"><h3>" +
              markup(record.header.targets.size() == 1 ? group : group + " on " + device) + "</h3>" + group_picture(device, group, rows) +
              "</section>\n";
  }
  return text + "</div>\n";
}

std::string count_bars(const Record& record) {
  constexpr double wide = 340, high = 46;
  const std::size_t devices = record.header.targets.size();
  Svg svg(wide, high * static_cast<double>(devices), "what ran");
  for (std::size_t t = 0; t < devices; ++t) {
    HeatCell all;
    for (const RecordedResult& r : record.results)
      if (r.target == t) all.add(r.result.verdict);
    const std::uint64_t there = std::max(record.header.cases, all.cases);
    const double y = high * static_cast<double>(t), unit = there == 0 ? 0 : wide / static_cast<double>(there);
    const std::string& device = record.header.targets[t].label;
    std::string words = thousands(all.passed) + " passed";
    if (all.failed() != 0) words += ", " + thousands(all.failed()) + " not green";
    if (all.waived != 0) words += ", " + thousands(all.waived) + " waived";
    if (there != all.cases) words += ", " + thousands(there - all.cases) + " not run";
    svg.text({0, y + 12}, shortened(device, 20) + ": " + thousands(all.cases) + " of " + thousands(there) + " cases ran", "");
    svg.text({0, y + 26}, words, "small dim");
    double x = 0;
    for (const auto& [count, kind] : {std::pair{all.passed, "s2 fill"}, std::pair{all.failed(), "failed"}, std::pair{all.waived, "waived"},
                                      std::pair{there - all.cases, "none"}}) {
      svg.rectangle({x, y + 31}, unit * static_cast<double>(count), 8, kind);
      x += unit * static_cast<double>(count);
    }
  }
  return svg.inside_a_page();
}

}  // namespace quern::conformance
