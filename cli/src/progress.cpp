#include "progress.hpp"

#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace quern::cli {
namespace {

std::mutex screen;  // the library may log from another thread while the bar is drawn
std::string drawn;

int columns_of_stderr() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(const std::string& verb, const std::string& label, std::uint64_t done, std::uint64_t total, int columns) {
  const double share = total == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const std::string percent = " " + std::to_string(static_cast<int>(share * 100)) + " %";
  const auto room = static_cast<std::size_t>(std::max(columns - 1, 20));
  std::string head = verb + " " + printable(label);
  const std::size_t fixed_part = percent.size() + 4;
  if (columns_of(head) + fixed_part + 10 > room) head = verb;
  const std::size_t width = std::min<std::size_t>(40, room - std::min(room, columns_of(head) + fixed_part));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return head + " [" + std::string(filled, '#') + std::string(width - filled, '.') + "]" + percent;
}

void draw_progress(const std::string& verb, const std::string& label, std::uint64_t done, std::uint64_t total) {
  if (!draws_on_error()) return;
  std::string line = progress_line(verb, label, done, total, columns_of_stderr());
  const std::lock_guard lock(screen);
  if (line == drawn) return;
  draw_on_error(Drawing().clear_line().text(line));
  drawn = std::move(line);
}

void erase_progress() {
  const std::lock_guard lock(screen);
  if (drawn.empty()) return;
  draw_on_error(Drawing().clear_line());
  drawn.clear();
}

}  // namespace quern::cli
