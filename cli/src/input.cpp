#include "input.hpp"

#include "failure.hpp"

#include "quern/base/files.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::cli {
namespace {

constexpr std::uint64_t most_input = std::uint64_t{1} << 30;

}  // namespace

std::string read_stdin() {
  std::string bytes;
  if (const base::FileProblem problem = base::read_descriptor(STDIN_FILENO, "standard input", bytes, most_input))
    throw Failure(exit_refused, problem.text);
  return bytes;
}

std::string read_answer() {
  std::string line;
  char byte = 0;
  while (line.size() < 4096) {
    const ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got <= 0 || byte == '\n') break;
    line += byte;
  }
  return line;
}

std::string read_beside_prompt(void (*waiting)()) {
  struct stat found {};
  if (fstat(STDIN_FILENO, &found) != 0) return "";
  if (!S_ISFIFO(found.st_mode) && !S_ISREG(found.st_mode) && !S_ISSOCK(found.st_mode)) return "";
  constexpr int patience_milliseconds = 2000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, patience_milliseconds) == 0) waiting();
  return read_stdin();
}

std::string with_input(std::string prompt, const std::string& input) {
  if (input.empty()) return prompt;
  return prompt.empty() ? input : prompt + "\n\n" + input;
}

std::string read_file(const std::string& path) {
  if (path == "-") return read_stdin();
  std::string bytes;
  // Pipes too: --messages /dev/stdin, or what a shell gives for <(command).
  if (const base::FileProblem problem = base::read_file(path, bytes, {.most = most_input, .pipes = base::Pipes::read}))
    throw Failure(exit_refused, problem.text);
  return bytes;
}

}  // namespace quern::cli
