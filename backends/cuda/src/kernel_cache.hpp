// Compiled kernels on disk: one file a unit and key, written whole or not at all. A damaged or foreign file counts as absent. Of processes
// that start together one compiles a kernel, and the others read it.
#pragma once

#include "quern/base/files.hpp"

#include <optional>
#include <string>

namespace quern::cuda {

class KernelCache {
 public:
  /// An empty directory: nothing is found or kept.
  explicit KernelCache(const std::string& directory);
  /// The cubin kept under this key, or empty.
  std::string find(const std::string& unit, const std::string& key) const;

  /// The place of a kernel that is being compiled. It is free again when this is destroyed, or its process ends.
  class Place {
   private:
    friend class KernelCache;
    base::NewFile file_;
    bool kept_ = false;  // whether there is a file to write
  };
  /// Nothing while somebody else has the place of this kernel. Where no file can be made there is a place all the same, and nothing is kept.
  std::optional<Place> take(const std::string& unit, const std::string& key) const;
  /// Keeps it; what goes wrong is not an error, the next start compiles again.
  static void keep(Place place, const std::string& key, const std::string& cubin);

 private:
  std::string path(const std::string& unit, const std::string& key) const;
  std::string directory_;
};

}  // namespace quern::cuda
