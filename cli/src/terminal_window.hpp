// The window that standard output is shown in.
#pragma once

#include <cstddef>

namespace quern::cli {

struct WindowSize {
  std::size_t columns = 80, rows = 24;
};

/// As it is now; 80 columns and 24 rows where there is no window.
WindowSize window_size();

/// Whether the cursor may be moved and text be styled: standard output is a terminal, and not a "dumb" one.
bool window_can_draw();

/// Whether text may be styled as well: not where NO_COLOR is set (no-color.org).
bool window_has_styles();

}  // namespace quern::cli
