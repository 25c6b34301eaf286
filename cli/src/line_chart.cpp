#include "line_chart.hpp"

#include "numbers.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::cli {
namespace {

using base::Point, base::Svg;

constexpr double chart_width = 640, left_margin = 72, right_margin = 16, top_margin = 34, plot_height = 200, axis_height = 40,
                 legend_row = 16;
constexpr std::size_t series_colours = 8, series_dashes = 3;

/// 1, 2 or 5 times a power of ten: at most five of it reach `most`.
double tick_step(double most) {
  if (!(most > 0) || !std::isfinite(most)) return 1;
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double times : {1.0, 2.0, 5.0})
    if (power * times * 5 >= most) return power * times;
  return power * 10;
}

std::string tick_text(double value, double step) {
  if (value >= 1e15) return "?";
  if (step < 1) return fixed(value, step < 0.1 ? 2 : 1);
  return with_commas(static_cast<std::uint64_t>(std::llround(value)));
}

/// What the y axis has to hold.
struct Extent {
  double least_point = 0, most_point = 0, most = 0;  // least: of those above 0; 0 if there is none
};

Extent extent_of(const Chart& chart) {
  Extent extent;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      const double y = point.y + point.deviation;
      if (!std::isfinite(y)) continue;
      extent.most_point = std::max(extent.most_point, y);
      if (point.y > 0 && (extent.least_point == 0 || point.y < extent.least_point)) extent.least_point = point.y;
    }
    for (const Point& point : series.limit)
      if (std::isfinite(point.y)) extent.most = std::max(extent.most, point.y);
  }
  extent.most = std::max(extent.most, extent.most_point);
  return extent;
}

class Axes {
 public:
  Axes(const Chart& chart, double top) : top_(top + top_margin) {
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points) places_[point.x] = 0;
    std::size_t at = 0;
    for (auto& [x, place] : places_) place = at++;
    const Extent extent = extent_of(chart);
    logarithmic_ = extent.least_point > 0 && extent.most > 5 * extent.most_point;
    if (logarithmic_) {
      lowest_ = std::pow(10, std::floor(std::log10(extent.least_point)));
      highest_ = std::pow(10, std::ceil(std::log10(extent.most)));
      for (double mark = lowest_; mark <= highest_ * 1.001 && marks_.size() < 20; mark *= 10) marks_.push_back(mark);
    } else {
      const double step = tick_step(extent.most);
      highest_ = step * std::max(1.0, std::ceil(extent.most / step));
      for (int k = 0; step * k <= highest_ * 1.001; ++k) marks_.push_back(step * k);
    }
  }

  double x(double value) const {
    const auto found = places_.find(value);
    const double at = found == places_.end() ? 0 : static_cast<double>(found->second) + 0.5;
    return left_margin + (chart_width - left_margin - right_margin) * at / static_cast<double>(std::max<std::size_t>(1, places_.size()));
  }
  double y(double value) const {
    double share = 0;
    if (logarithmic_) share = value > 0 ? std::log(value / lowest_) / std::log(highest_ / lowest_) : 0;
    else if (std::isfinite(value)) share = value / highest_;
    return bottom() - plot_height * std::clamp(std::isfinite(share) ? share : 0, 0.0, 1.0);
  }
  double bottom() const { return top_ + plot_height; }

  void draw(Svg& svg, const Chart& chart) const {
    const double step = logarithmic_ ? lowest_ : marks_.size() > 1 ? marks_[1] : 1;
    for (std::size_t k = 0; k < marks_.size(); ++k) {
      svg.line({left_margin, y(marks_[k])}, {chart_width - right_margin, y(marks_[k])}, k == 0 ? "axis" : "grid");
      svg.text({left_margin - 6, y(marks_[k]) + 4}, tick_text(marks_[k], step), "small dim end");
    }
    for (const auto& [value, place] : places_)
      svg.text({x(value), bottom() + 16}, with_commas(static_cast<std::uint64_t>(std::max(0.0, value))), "small dim middle");
    svg.text({(left_margin + chart_width - right_margin) / 2, bottom() + 32}, chart.x_name, "small middle");
    svg.text({left_margin, top_ - 8}, chart.y_name + (logarithmic_ ? ", each line ten times the one below" : ""), "small dim");
  }

 private:
  double top_, lowest_ = 0, highest_ = 1;
  bool logarithmic_ = false;
  std::vector<double> marks_;
  std::map<double, std::size_t> places_;
};

/// The classes that tell a curve from the others: a colour, and dashes of its own where the colours are used up.
std::string curve_classes(std::size_t number) {
  const std::size_t round = std::min(number / series_colours, series_dashes);
  return "s" + std::to_string(number % series_colours) + (round == 0 ? std::string() : " round" + std::to_string(round)) + " curve";
}

void draw_series(Svg& svg, const Axes& axes, const ChartSeries& series, std::size_t number, const Chart& chart) {
  const std::string colour = "s" + std::to_string(number % series_colours) + " ";
  std::vector<Point> line;
  for (const Point& point : series.limit) line.push_back({axes.x(point.x), axes.y(point.y)});
  if (line.size() == 1) line = {{line[0].x - 30, line[0].y}, {line[0].x + 30, line[0].y}};
  if (!line.empty()) svg.curve(line, colour + "curve limit");
  line.clear();
  for (const ChartPoint& point : series.points) line.push_back({axes.x(point.x), axes.y(point.y)});
  if (line.size() > 1) svg.curve(line, curve_classes(number));
  for (const ChartPoint& point : series.points) {
    const double x = axes.x(point.x);
    if (point.deviation > 0) svg.line({x, axes.y(point.y - point.deviation)}, {x, axes.y(point.y + point.deviation)}, colour + "error");
    svg.dot({x, axes.y(point.y)}, 3.5, colour + "fill",
            series.name + (series.name.empty() ? "" : ", ") + chart.x_name + " " + fixed(point.x, 0) + ": " + fixed(point.y, 2) + " +- " +
                fixed(point.deviation, 2));
  }
}

/// Room below the axis for the names of the curves, two columns of them.
double legend_height(const Chart& chart) { return legend_row * std::ceil((static_cast<double>(chart.series.size()) + 1) / 2) + 14; }

void draw_legend(Svg& svg, double top, const Chart& chart) {
  const bool limits = std::ranges::any_of(chart.series, [](const ChartSeries& series) { return !series.limit.empty(); });
  for (std::size_t i = 0; i <= chart.series.size(); ++i) {
    const double x = left_margin + 285 * static_cast<double>(i % 2), y = top + legend_row * static_cast<double>(i / 2);
    if (i == chart.series.size()) {
      if (limits) {
        svg.curve(std::vector<Point>{{x, y - 4}, {x + 22, y - 4}}, "s7 curve limit");
        svg.text({x + 28, y}, "what the machine could do, as measured", "small dim");
      }
    } else {
      svg.curve(std::vector<Point>{{x, y - 4}, {x + 22, y - 4}}, curve_classes(i));
      svg.text({x + 28, y}, chart.series[i].name.empty() ? "measured" : chart.series[i].name, "small");
    }
  }
}

}  // namespace

std::string charts_svg(const std::string& heading, const std::vector<Chart>& charts) {
  constexpr double head = 30;
  double height = head;
  for (const Chart& chart : charts) height += top_margin + plot_height + axis_height + legend_height(chart);
  Svg svg(chart_width, height, heading);
  svg.rectangle({0, 0}, chart_width, height, "paper").text({14, 20}, heading.size() <= 92 ? heading : heading.substr(0, 90) + "..", "");
  double top = head;
  for (const Chart& chart : charts) {
    const Axes axes(chart, top);
    svg.text({chart_width - right_margin, top + top_margin - 8}, chart.title, "title end");
    axes.draw(svg, chart);
    for (std::size_t i = 0; i < chart.series.size(); ++i) draw_series(svg, axes, chart.series[i], i, chart);
    draw_legend(svg, axes.bottom() + axis_height + 10, chart);
    top += top_margin + plot_height + axis_height + legend_height(chart);
  }
  return svg.alone();
}

}  // namespace quern::cli
