// See output.hpp.
#include "cli/output.hpp"

#include "quern/base/terminal_output.hpp"

#include <unistd.h>

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

}  // namespace

std::ostream& to_output() { return out().stream; }
int output_problem() { return out().buffer.problem(); }

std::ostream& to_messages() {
  static Stream err(STDERR_FILENO, TerminalOutput::Kind::messages);
  return err.stream;
}

void write_error(std::string_view sentence) {
  to_messages() << "quern-conformance: " + printable(sentence) + "\n";
}

}  // namespace quern::conformance
