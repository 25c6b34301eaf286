// Compiled kernels on disk: one file a unit and key, written whole or not at all. A damaged or foreign file counts as absent.
#pragma once

#include <string>

namespace quern::cuda {

class KernelCache {
 public:
  /// An empty directory: nothing is found or kept.
  explicit KernelCache(const std::string& directory);
  /// The cubin kept under this key, or empty.
  std::string find(const std::string& unit, const std::string& key) const;
  /// Keeps it; what goes wrong is not an error, the next start compiles again.
  void keep(const std::string& unit, const std::string& key, const std::string& cubin) const;

 private:
  std::string path(const std::string& unit, const std::string& key) const;
  std::string directory_;
};

}  // namespace quern::cuda
