// See torn_line.hpp.
#include "journal/torn_line.hpp"

#include "journal/named_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

namespace quern::conformance {

void drop_torn_line(base::GrowingFile& file) {
  const auto check = [](const base::FileProblem& problem) { check_named("--resume: a torn last line cannot be cut off:", problem); };
  struct stat info {};
  if (::fstat(file.descriptor(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::vector<std::byte> block(65536);
  std::uint64_t whole = 0;
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    const auto piece = std::span(block).first(std::min<std::uint64_t>(block.size(), size - at));
    check(base::read_at(file.descriptor(), file.path(), at, piece));
    for (std::size_t i = 0; i < piece.size(); ++i)
      if (piece[i] == std::byte{'\n'}) whole = at + i + 1;
  }
  if (whole != size) check(file.truncate(whole));
}

}  // namespace quern::conformance
