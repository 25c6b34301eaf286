// A directory that goes with its files when the script ends.
#pragma once

#include <string>

namespace quern::conformance::abi {

class TemporaryDirectory {
 public:
  TemporaryDirectory();  // throws std::system_error
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const noexcept { return path_; }
  void write(const std::string& name, const std::string& bytes) const;
  std::size_t files() const;  // in it and below

 private:
  std::string path_;
};

/// Throws std::system_error.
std::string read_file(const std::string& path);

}  // namespace quern::conformance::abi
