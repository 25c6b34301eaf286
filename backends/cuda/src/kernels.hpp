// Kernels by name, for one device: from built-in cubins, else compiled by NVRTC and kept on disk.
#pragma once

#include "driver.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cuda {

/// How kernels of a device come to be: architecture and options of the host.
struct KernelOrigin {
  int major = 0, minor = 0;      // compute capability
  int shared_limit = 49152;      // bytes of shared memory that a block may ask for
  bool force_jit = false;        // ignore what is built in
  std::string cache_directory;   // empty: keep nothing
  bool library = true;           // cuBLASLt may be used, where it is installed
  bool probe_only = false;       // where kernels are not built in, compile only what the probe's proof needs: it has seconds
};

class Kernels {
 public:
  /// Loads every unit into the current context. Throws Failure(ARCH_NOT_BUILT or DEPENDENCY_MISSING) where there is neither a
  /// cubin for this architecture nor a compiler.
  Kernels(std::shared_ptr<const Driver> driver, const KernelOrigin& origin);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Whether a unit was loaded: all are, but for probe_only.
  bool has(std::string_view unit) const { return modules_.find(unit) != modules_.end(); }
  /// A kernel of unit `unit`; found once, then remembered. Throws Failure(INTERNAL) for a name that is not there.
  Function get(std::string_view unit, std::string_view name);
  /// "built in for sm_90a", "compiled by NVRTC 13.0", "compiled earlier, from the cache"
  const std::string& origin() const noexcept { return origin_; }

 private:
  std::shared_ptr<const Driver> driver_;
  std::map<std::string, Module, std::less<>> modules_;
  std::map<std::string, Function, std::less<>> functions_;
  std::string origin_;
  int shared_limit_;
};

/// "sm_90a" for 9.0: the form whose kernels may use that architecture's own instructions; "sm_86" for 8.6.
std::string architecture_name(int major, int minor);

}  // namespace quern::cuda
