// See torn_line.hpp.
#include "journal/torn_line.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace quern::conformance {

void drop_torn_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return;
  std::uint64_t size = 0, whole = 0;
  char block[65536];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    const auto got = static_cast<std::uint64_t>(in.gcount());
    for (std::uint64_t i = 0; i < got; ++i)
      if (block[i] == '\n') whole = size + i + 1;
    size += got;
  }
  if (whole != size && ::truncate(path.c_str(), static_cast<off_t>(whole)) != 0)
    throw std::system_error(errno, std::generic_category(), path + ": its torn last line cannot be cut off");
}

}  // namespace quern::conformance
