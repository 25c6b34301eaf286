// See output.hpp.
#include "cli/output.hpp"

#include "quern/base/terminal_output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>

namespace quern::conformance {
namespace {

struct Stream {
  Stream(int file, TerminalOutput::Kind kind) : output(file, kind) {
    if (kind == TerminalOutput::Kind::messages) stream << std::unitbuf;
  }
  TerminalOutput output;
  TerminalBuffer buffer{output};
  std::ostream stream{&buffer};
};

Stream& out() {
  static Stream out(STDOUT_FILENO, TerminalOutput::Kind::results);
  return out;
}

Stream& messages_stream() {
  static Stream err(STDERR_FILENO, TerminalOutput::Kind::messages);
  return err;
}

std::atomic<bool> progress_drawn{false};  // lanes write messages too

}  // namespace

std::ostream& to_output() { return out().stream; }
int output_problem() { return out().buffer.problem(); }

std::ostream& to_messages() {
  erase_progress();
  return messages_stream().stream;
}

void draw_progress(std::string_view line) {
  static const bool terminal = messages_stream().output.is_terminal();
  if (!terminal) return;
  messages_stream().output.draw(Drawing().clear_line().text(line));
  progress_drawn = true;
}

void erase_progress() {
  if (!progress_drawn.exchange(false)) return;
  messages_stream().output.draw(Drawing().clear_line());
}

int columns_of_messages() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_error(std::string_view sentence) { to_messages() << "quern-conformance: " + printable(sentence) + "\n"; }

}  // namespace quern::conformance
