// Curves over a number, as SVG: how a speed changes with depth, batch or threads. Pure.
#pragma once

#include "quern/base/svg.hpp"

#include <string>
#include <vector>

namespace quern::cli {

struct ChartPoint {
  double x = 0, y = 0;
  double deviation = 0;  // drawn as a bar of y - deviation to y + deviation
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // by rising x
  std::vector<base::Point> limit;  // what y could be at most, dashed; empty: not known
};

struct Chart {
  std::string title, x_name, y_name;
  std::vector<ChartSeries> series;
};

/// One picture of all charts, one below the other, under a heading. A y axis begins at 0, but is logarithmic where a limit is beyond five times
/// the highest point, since the curves would else lie on the axis; x places are spaced evenly, since depths grow by
/// factors. Lines that are measured limits are dashed.
std::string charts_svg(const std::string& heading, const std::vector<Chart>& charts);

}  // namespace quern::cli
