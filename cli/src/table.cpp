#include "table.hpp"

#include "output.hpp"

#include <algorithm>

namespace quern::cli {

std::string Table::text() const {
  std::vector<std::vector<std::string>> all(1);
  for (const Column& column : columns_) all.front().push_back(column.title);
  all.insert(all.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& row : all)
    for (std::size_t at = 0; at < row.size(); ++at) widths[at] = std::max(widths[at], columns_of(row[at]));
  std::string out;
  for (const auto& row : all) {
    std::string line;
    for (std::size_t at = 0; at < row.size(); ++at) {
      const std::string blanks(widths[at] - columns_of(row[at]), ' ');
      line += at == 0 ? "" : "  ";
      line += columns_[at].align == Align::right ? blanks + row[at] : row[at] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace quern::cli
