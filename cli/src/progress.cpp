#include "progress.hpp"

#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace quern::cli {
namespace {

std::mutex screen;  // the library may log from another thread while the bar is drawn
std::string drawn;

int columns_of_stderr() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string verb, std::string label, const char* item, bool quiet)
    : meter_(std::move(verb), std::move(label), item), quiet_(quiet) {}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  if (quiet_ || !draws_on_error()) return;
  std::optional<std::string> line = meter_.line(done, total, columns_of_stderr());
  const std::lock_guard lock(screen);
  if (!line || *line == drawn) return;
  draw_on_error(Drawing().clear_line().text(*line));
  drawn = std::move(*line);
}

void Progress::end() { erase_progress(); }

void erase_progress() {
  const std::lock_guard lock(screen);
  if (drawn.empty()) return;
  draw_on_error(Drawing().clear_line());
  drawn.clear();
}

}  // namespace quern::cli
