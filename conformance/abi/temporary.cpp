// See temporary.hpp.
#include "abi/temporary.hpp"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace quern::conformance::abi {

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "quern-conformance-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryDirectory::write(const std::string& name, const std::string& bytes) const {
  std::ofstream out(path_ + "/" + name, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw std::system_error(EIO, std::generic_category(), path_ + "/" + name);
}

std::size_t TemporaryDirectory::files() const {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::system_error(ENOENT, std::generic_category(), path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace quern::conformance::abi
