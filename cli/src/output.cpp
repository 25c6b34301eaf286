#include "output.hpp"

#include "failure.hpp"
#include "progress.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quern::cli {

std::string json_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Not stdio: a write that Ctrl-C interrupts goes on where it stopped, and nothing is lost.
void write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Failure(exit_refused, std::string("standard output: cannot be written: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_json(const Json& value) { write_out(json_line(value)); }

void write_error_line(std::string_view line) {
  erase_progress();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

std::string printable(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

}  // namespace quern::cli
