// Bars, sparklines and trees of characters. Pure.
#pragma once

#include "config.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace quern::cli {

/// Whether the locale of the environment (LC_ALL, else LC_CTYPE, else LANG) is one of UTF-8.
bool has_utf8(const Environment& environment);

/// "[####......]" of `width` characters, brackets included; a share below 0 or no number is an empty bar, one above 1 a full one.
std::string text_bar(double share, std::size_t width);

/// A character a value, by its share of `most`; the last `width` values.
std::string sparkline(std::span<const double> values, double most, std::size_t width, bool utf8);

struct TreeNode {
  std::string text;
  std::vector<TreeNode> below;
};
/// The node's line, then those below it behind branches.
std::string tree_text(const TreeNode& root, bool utf8);

}  // namespace quern::cli
