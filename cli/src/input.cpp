#include "input.hpp"

#include "characters.hpp"
#include "failure.hpp"
#include "numbers.hpp"

#include "quern/base/files.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::cli {
namespace {

constexpr std::uint64_t most_input = std::uint64_t{1} << 30;

/// Of the only word "-" in a prompt; npos where there is none, where there are several, and where it begins a line of a list.
std::size_t place_of_input(std::string_view prompt) {
  constexpr std::string_view blanks = " \t\n\r";
  const auto is_blank = [&](std::size_t at) { return at >= prompt.size() || blanks.find(prompt[at]) != std::string_view::npos; };
  std::size_t place = std::string_view::npos;
  for (std::size_t at = prompt.find('-'); at != std::string_view::npos; at = prompt.find('-', at + 1)) {
    if (!is_blank(at + 1) || (at > 0 && !is_blank(at - 1))) continue;
    if (place != std::string_view::npos) return std::string_view::npos;
    place = at;
  }
  if (place == std::string_view::npos) return place;
  const std::size_t line = prompt.substr(0, place).find_last_not_of(" \t");
  const std::size_t rest = prompt.find_first_not_of(" \t\r", place + 1);
  const bool begins = line == std::string_view::npos || prompt[line] == '\n';
  const bool ends = rest == std::string_view::npos || prompt[rest] == '\n';
  return begins && !ends ? std::string_view::npos : place;
}

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

void require_text(std::string_view text, const std::string& what) {
  if (const std::size_t bad = first_bad_byte(text); bad < text.size())
    throw Failure(exit_refused,
                  what + " is not text in UTF-8: byte " + with_commas(bad + 1) + " belongs to no character; give it in UTF-8");
}

std::string read_text(const std::string& path) {
  std::string text = read_file(path);
  require_text(text, path == "-" ? "standard input" : path + ":");
  return text;
}

std::string appended(std::string text, const std::string& more) {
  if (more.empty()) return text;
  if (text.empty()) return more;
  const bool ends_line = text.ends_with('\n');
  return std::move(text) + (ends_line ? "\n" : "\n\n") + more;
}

std::string with_input(std::string prompt, const std::string& input) {
  if (input.empty()) return prompt;
  if (const std::size_t place = place_of_input(prompt); place != std::string::npos) return prompt.replace(place, 1, input);
  return appended(std::move(prompt), input);
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
