// See temporary.hpp.
#include "abi/temporary.hpp"

#include "quern/base/files.hpp"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
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
  if (const base::FileProblem problem = base::write_file(path_ + "/" + name, bytes))
    throw std::system_error(problem.error, std::generic_category(), problem.text);
}

std::size_t TemporaryDirectory::files() const {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

std::string read_file(const std::string& path) {
  std::string bytes;
  if (const base::FileProblem problem = base::read_file(path, bytes, {.most = 1 << 30}))
    throw std::system_error(problem.error, std::generic_category(), problem.text);
  return bytes;
}

}  // namespace quern::conformance::abi
