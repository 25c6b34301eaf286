// See named_file.hpp.
#include "journal/named_file.hpp"

#include "cli/options.hpp"

namespace quern::conformance {

void check_named(const std::string& flag, const base::FileProblem& problem) {
  if (problem) throw UsageError(flag + " " + problem.text);
}

std::string read_named(const std::string& flag, const std::string& path) {
  std::string text;
  check_named(flag, base::read_file(path, text, {.most = 1 << 30}));
  return text;
}

void write_named(const std::string& flag, const std::string& path, const std::string& text) {
  check_named(flag, base::write_file(path, text));
}

}  // namespace quern::conformance
