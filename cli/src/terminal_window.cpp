#include "terminal_window.hpp"

#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace quern::cli {

WindowSize window_size() {
  winsize found{};
  if (ioctl(results_file(), TIOCGWINSZ, &found) != 0 || found.ws_col == 0 || found.ws_row == 0) return {};
  return {found.ws_col, found.ws_row};
}

bool window_can_draw() {
  const char* term = std::getenv("TERM");
  return isatty(results_file()) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

bool window_has_styles() {
  const char* no_color = std::getenv("NO_COLOR");
  return window_can_draw() && (no_color == nullptr || *no_color == '\0');
}

}  // namespace quern::cli
