#include "text_charts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>

namespace quern::cli {
namespace {

void add_tree(const TreeNode& node, const std::string& before, bool utf8, std::string& out) {
  for (std::size_t i = 0; i < node.below.size(); ++i) {
    const bool last = i + 1 == node.below.size();
    out += before + (utf8 ? last ? "└─ " : "├─ " : last ? "`- " : "|- ") + node.below[i].text + "\n";
    add_tree(node.below[i], before + (last ? "   " : utf8 ? "│  " : "|  "), utf8, out);
  }
}

double between_0_and_1(double share) { return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0; }

}  // namespace

bool has_utf8(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = environment(name);
    if (!value || value->empty()) continue;
    std::string lower = *value;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

std::string text_bar(double share, std::size_t width) {
  const std::size_t room = width < 3 ? 1 : width - 2;
  const auto filled = static_cast<std::size_t>(std::lround(between_0_and_1(share) * static_cast<double>(room)));
  return "[" + std::string(filled, '#') + std::string(room - filled, '.') + "]";
}

std::string sparkline(std::span<const double> values, double most, std::size_t width, bool utf8) {
  static constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
      plain{"_", ".", "-", "=", "+", "*", "%", "#"};
  std::string text;
  for (const double value : values.last(std::min(width, values.size()))) {
    const double share = between_0_and_1(most > 0 ? value / most : 0);
    text += (utf8 ? blocks : plain)[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))];
  }
  return text;
}

std::string tree_text(const TreeNode& root, bool utf8) {
  std::string out = root.text + "\n";
  add_tree(root, "", utf8, out);
  return out;
}

}  // namespace quern::cli
