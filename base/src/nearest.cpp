#include "quern/base/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace quern {
namespace {

constexpr std::size_t longest_name = 64;  // a longer text is no misspelt name, and edits cost its length squared

std::string folded(std::string_view name) {
  std::string out(name);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return out;
}

/// Optimal string alignment distance.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> two_back(to.size() + 1), back(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) back[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[to.size()];
}

}  // namespace

std::string nearest(std::string_view given, std::span<const std::string> names) {
  const std::string wanted = folded(given);
  if (wanted.find_first_not_of('-') == std::string::npos || wanted.size() > longest_name) return "";
  const std::string* best = nullptr;
  for (const std::string& name : names)
    if (folded(name).starts_with(wanted) && (best == nullptr || name.size() < best->size())) best = &name;
  if (best != nullptr) return *best;
  std::size_t fewest = std::max<std::size_t>(1, given.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t count = edits(wanted, folded(name));
    if (count < fewest) {
      fewest = count;
      best = &name;
    }
  }
  return best == nullptr ? "" : *best;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> names) {
  const std::string name = nearest(given, names);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

}  // namespace quern
