#include "page_view.hpp"

#include "output.hpp"
#include "terminal_window.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

namespace quern::cli {
namespace {

constexpr std::size_t mark_width = 5;  // "[ok] "

std::optional<Style> style_of_mark(std::string_view line) {
  if (line.starts_with("[ok] ")) return Style::green;
  if (line.starts_with("[no] ")) return Style::red;
  if (line.starts_with("[!!] ")) return Style::yellow;
  if (line.starts_with("[--] ")) return Style::dim;
  return {};
}

void wrap_line(const std::string& line, std::size_t columns, std::vector<std::string>& out) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::string hang(style_of_mark(line) ? mark_width : begin + 2, ' ');
  std::istringstream words(line.substr(begin));
  std::string row(begin, ' ');
  bool empty = true;
  for (std::string word; words >> word;) {
    if (!empty && columns_of(row) + 1 + columns_of(word) > columns) {
      out.push_back(row);
      row = hang;
      empty = true;
    }
    row += (empty ? "" : " ") + word;
    empty = false;
  }
  out.push_back(empty ? "" : row);
}

}  // namespace

std::vector<std::string> wrapped_lines(const std::string& page, std::size_t columns) {
  std::vector<std::string> out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (columns_of(line) <= columns) out.push_back(line);
    else wrap_line(line, columns, out);
  }
  return out;
}

void write_marked_page(const std::string& page) {
  if (!window_can_draw()) {
    write_out(page);
    return;
  }
  Drawing drawing;
  for (const std::string& line : wrapped_lines(page, window_size().columns)) {
    const std::optional<Style> style = style_of_mark(line);
    if (style && window_has_styles())
      drawing.style(*style).text(line.substr(0, mark_width - 1)).no_style().text(line.substr(mark_width - 1));
    else drawing.text(line);
    drawing.rows("\n");
  }
  draw_out(drawing);
}

}  // namespace quern::cli
