#include "output.hpp"

#include "failure.hpp"
#include "progress.hpp"

#include <unistd.h>

#include <mutex>
#include <system_error>

namespace quern::cli {
namespace {

int file_of_results = STDOUT_FILENO;

TerminalOutput& results() {
  static TerminalOutput output(results_file(), TerminalOutput::Kind::results);
  return output;
}

std::mutex messages_mutex;  // the library logs from its own threads

TerminalOutput& messages() {
  static TerminalOutput output(STDERR_FILENO, TerminalOutput::Kind::messages);
  return output;
}

void require_written(int error) {
  if (error != 0) throw Failure(exit_refused, "standard output: cannot be written: " + std::generic_category().message(error));
}

}  // namespace

void set_results_file(int file) noexcept { file_of_results = file; }

int results_file() noexcept { return file_of_results; }

std::string json_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

void write_out(std::string_view bytes) { require_written(results().write(bytes)); }

void write_json(const Json& value) { require_written(results().write_json(json_line(value))); }

void draw_out(const Drawing& drawing) { require_written(results().draw(drawing)); }

void write_error_line(std::string_view line) {
  constexpr std::size_t longest = 8192;  // what a message quotes may be longer than anybody reads
  write_error_page(printable_start(line, longest) + "\n");
}

// Where standard error cannot be written there is nobody to say it to.
void write_error_page(std::string_view page) {
  erase_progress();
  const std::lock_guard lock(messages_mutex);
  messages().write(page);
}

void write_error_in_handler(std::string_view line) noexcept { TerminalOutput::write_in_handler(STDERR_FILENO, line); }

bool draws_on_error() {
  static const bool terminal = messages().is_terminal();
  return terminal;
}

void draw_on_error(const Drawing& drawing) {
  const std::lock_guard lock(messages_mutex);
  messages().draw(drawing);
}

}  // namespace quern::cli
