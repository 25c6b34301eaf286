#include "screen_layout.hpp"

#include "characters.hpp"

#include <algorithm>
#include <vector>

namespace quern::cli {
namespace {

struct Row {
  std::string shown;
  bool ends_line = false;  // by a newline of the text, not because it is full
  bool full = false;
};

class Rows {
 public:
  explicit Rows(std::size_t columns) : columns_(std::max<std::size_t>(columns, 4)), rows_(1) {}

  void put(std::string_view bytes, std::size_t columns) {
    if (column_ + columns > columns_) begin_row(false);
    rows_.back().shown += bytes;
    column_ += columns;
    if (column_ == columns_) rows_.back().full = true;
  }
  void begin_row(bool ends_line) {
    rows_.back().ends_line = ends_line;
    rows_.emplace_back();
    column_ = 0;
  }
  /// The cursor stands where the next character of one column would.
  void mark_cursor() {
    if (column_ == columns_) begin_row(false);
    row_ = rows_.size() - 1;
    cursor_column_ = column_;
  }

  const std::vector<Row>& rows() const { return rows_; }
  std::size_t row() const { return row_; }
  std::size_t cursor_column() const { return cursor_column_; }

 private:
  std::size_t columns_;
  std::vector<Row> rows_;
  std::size_t column_ = 0, row_ = 0, cursor_column_ = 0;
};

Rows rows_of(std::string_view prompt, std::string_view text, std::size_t cursor, std::size_t columns) {
  Rows rows(columns);
  std::size_t indent = 0;
  for (std::size_t at = 0; at < prompt.size();) {
    const Character one = character_at(prompt, at);
    rows.put(one.shown ? prompt.substr(at, one.bytes) : std::string_view("?"), static_cast<std::size_t>(one.columns));
    indent += static_cast<std::size_t>(one.columns);
    at += one.bytes;
  }
  for (std::size_t at = 0; at < text.size();) {
    if (at == cursor) rows.mark_cursor();
    if (text[at] == '\n') {
      rows.begin_row(true);
      for (std::size_t i = 0; i < indent; ++i) rows.put(" ", 1);
      ++at;
      continue;
    }
    if (text[at] == '\t') {
      for (int i = 0; i < 4; ++i) rows.put(" ", 1);
      ++at;
      continue;
    }
    const Character one = character_at(text, at);
    rows.put(one.shown ? text.substr(at, one.bytes) : std::string_view("?"), static_cast<std::size_t>(one.columns));
    at += one.bytes;
  }
  if (cursor >= text.size()) rows.mark_cursor();
  return rows;
}

}  // namespace

ScreenLayout lay_out(std::string_view prompt, std::string_view text, std::size_t cursor, std::size_t columns, std::size_t height) {
  const Rows rows = rows_of(prompt, text, cursor, columns);
  const std::size_t all = rows.rows().size();
  const std::size_t count = std::min(all, std::max<std::size_t>(height, 1));
  // The window of `count` rows ends at the cursor's row, or later near the text's start.
  const std::size_t first = rows.row() < count ? 0 : rows.row() + 1 - count;
  ScreenLayout layout;
  layout.rows = count;
  layout.row = rows.row() - first;
  layout.column = rows.cursor_column();
  for (std::size_t i = first; i < first + count; ++i) {
    const Row& row = rows.rows()[i];
    layout.shown += row.shown;
    if (i + 1 == first + count) break;
    if (row.ends_line) layout.shown += "\r\n";
    // A full row wraps when the next character comes. A space makes it do so for an empty row, and \r goes back over it. A row that is
    // not full (a wide character did not fit) wraps in the same way, by the terminal.
    else if (row.full && rows.rows()[i + 1].shown.empty()) layout.shown += " \r";
  }
  return layout;
}

}  // namespace quern::cli
