// See svg.hpp.
#include "quern/base/svg.hpp"

#include "quern/base/markup.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace quern::base {
namespace {

constexpr double furthest = 1e6;

/// At most two decimals, whatever the locale: "12", "12.5".
std::string coordinate(double value) {
  if (std::isnan(value)) value = 0;
  value = std::clamp(value, -furthest, furthest);
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 2);
  std::string text(buffer.data(), error == std::errc{} ? end : buffer.data());
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text.empty() || text == "-0" || text == "-" ? "0" : text;
}

std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? std::string() : " " + std::string(name) + "=\"" + markup(value) + "\"";
}

std::string number(std::string_view name, double value) { return " " + std::string(name) + "=\"" + coordinate(value) + "\""; }

/// The end of a shape: its tip, if it has one.
std::string closed(const char* shape, std::string_view tip) {
  return tip.empty() ? "/>\n" : "><title>" + markup(tip) + "</title></" + shape + ">\n";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title) : width_(width), height_(height), title_(title) {}

Svg& Svg::rectangle(Point corner, double width, double height, std::string_view kind, std::string_view tip) {
  shapes_ += "<rect" + number("x", corner.x) + number("y", corner.y) + number("width", std::max(0.0, width)) +
             number("height", std::max(0.0, height)) + attribute("class", kind) + closed("rect", tip);
  return *this;
}

Svg& Svg::line(Point from, Point to, std::string_view kind) {
  shapes_ +=
      "<line" + number("x1", from.x) + number("y1", from.y) + number("x2", to.x) + number("y2", to.y) + attribute("class", kind) + "/>\n";
  return *this;
}

Svg& Svg::curve(std::span<const Point> points, std::string_view kind) {
  std::string all;
  for (const Point& point : points) all += (all.empty() ? "" : " ") + coordinate(point.x) + "," + coordinate(point.y);
  shapes_ += "<polyline points=\"" + all + "\"" + attribute("class", kind) + "/>\n";
  return *this;
}

Svg& Svg::dot(Point centre, double radius, std::string_view kind, std::string_view tip) {
  shapes_ += "<circle" + number("cx", centre.x) + number("cy", centre.y) + number("r", std::max(0.0, radius)) + attribute("class", kind) +
             closed("circle", tip);
  return *this;
}

Svg& Svg::write_text(Point at, double degrees, std::string_view text, std::string_view kind) {
  shapes_ += "<text" + number("x", at.x) + number("y", at.y) + attribute("class", kind);
  if (degrees != 0) shapes_ += " transform=\"rotate(" + coordinate(degrees) + " " + coordinate(at.x) + " " + coordinate(at.y) + ")\"";
  shapes_ += ">" + markup(text) + "</text>\n";
  return *this;
}

Svg& Svg::text(Point at, std::string_view text, std::string_view kind) { return write_text(at, 0, text, kind); }

Svg& Svg::turned_text(Point at, double degrees, std::string_view text, std::string_view kind) {
  return write_text(at, degrees, text, kind);
}

Svg& Svg::begin_link(std::string_view place) {
  shapes_ += "<a href=\"#" + markup(place) + "\">";
  return *this;
}

Svg& Svg::end_link() {
  shapes_ += "</a>\n";
  return *this;
}

Svg& Svg::begin_group(std::string_view kind, std::string_view name) {
  shapes_ += "<g" + attribute("class", kind) + attribute("data-name", name) + ">\n";
  return *this;
}

Svg& Svg::end_group() {
  shapes_ += "</g>\n";
  return *this;
}

std::string Svg::opened(bool alone) const {
  const std::string width = coordinate(width_), height = coordinate(height_);
  return "<svg" + std::string(alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "") + " width=\"" + width + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + width + " " + height + "\" role=\"img\"><title>" + markup(title_) + "</title>\n";
}

std::string Svg::inside_a_page() const { return opened(false) + shapes_ + "</svg>\n"; }

std::string Svg::alone() const {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + opened(true) + "<style>" + std::string(picture_style) + "</style>\n" + shapes_ +
         "</svg>\n";
}

}  // namespace quern::base
