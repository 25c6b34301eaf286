// Writes a picture as SVG: charts, heat maps and timelines of all programs.
//
// A shape's look is its kind: names of classes of picture_style. Text and tips are escaped, so that they may come from anywhere; kinds are
// words of the program. Numbers that are not finite, or further than a million units away, are drawn at the limit, so that a picture is
// always well formed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quern::base {

struct Point {
  double x = 0, y = 0;
};

class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  /// `tip` is shown where the mouse rests; empty: none.
  Svg& rectangle(Point corner, double width, double height, std::string_view kind, std::string_view tip = {});
  Svg& line(Point from, Point to, std::string_view kind);
  /// One line through all points.
  Svg& curve(std::span<const Point> points, std::string_view kind);
  Svg& dot(Point centre, double radius, std::string_view kind, std::string_view tip = {});
  /// Begins at the point; of the kinds "middle" and "end" it has its middle or its end there.
  Svg& text(Point at, std::string_view text, std::string_view kind);
  /// Turned by that many degrees, clockwise, around the point.
  Svg& turned_text(Point at, double degrees, std::string_view text, std::string_view kind);
  /// What comes until end_link() leads to a place of the same page. The name is escaped.
  Svg& begin_link(std::string_view place);
  Svg& end_link();
  /// What comes until end_group() has this kind and this value of data-name, which a page's filter looks at.
  Svg& begin_group(std::string_view kind, std::string_view name);
  Svg& end_group();

  /// A part of an HTML page.
  std::string inside_a_page() const;
  /// A file of its own, with picture_style.
  std::string alone() const;

 private:
  std::string opened(bool alone) const;
  Svg& write_text(Point at, double degrees, std::string_view text, std::string_view kind);

  double width_, height_;
  std::string title_, shapes_;
};

}  // namespace quern::base
