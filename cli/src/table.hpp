// Rows of text under a header, in columns that are as wide as they need.
#pragma once

#include <string>
#include <vector>

namespace quern::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell a column. Cells are printable text of one line.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Header and rows, two blanks between columns.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace quern::cli
