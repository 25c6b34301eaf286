// Kernels by name, for one device: from built-in cubins, else compiled by NVRTC and kept on disk.
#pragma once

#include "driver.hpp"
#include "kernel_compiler.hpp"
#include "kernel_id.hpp"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cuda {

inline constexpr int usual_shared = 49152;  // bytes of shared memory that a block has without being asked

/// How kernels of a device come to be: architecture and options of the host.
struct KernelOrigin {
  int major = 0, minor = 0;         // compute capability
  int shared_limit = usual_shared;  // bytes of shared memory that a block may ask for
  bool force_jit = false;           // ignore what is built in
  std::string cache_directory;      // empty: keep nothing
  bool library = true;              // cuBLASLt may be used, where it is installed
  bool pool = true;         // memory comes from one reservation; else each allocation is the driver's, which memory checkers can tell apart
  unsigned threads = 1;     // that may copy uploads and compile, the caller's included
  bool probe_only = false;  // where kernels are not built in, compile only what the probe's proof needs: it has seconds
};

class Kernels {
 public:
  /// Loads every built-in unit into the current context; without one for this architecture units are compiled when they are first wanted.
  /// Throws Failure(ARCH_NOT_BUILT or DEPENDENCY_MISSING) where there is neither a
  /// cubin for this architecture nor a compiler.
  Kernels(std::shared_ptr<const Driver> driver, const KernelOrigin& origin);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Whether a kernel can be had: all can, but for probe_only.
  bool has(const KernelName& kernel) const;
  /// A kernel for launches with `shared` bytes of dynamic shared memory; found once, then remembered. Throws Failure(INTERNAL)
  /// for a name that is not there, Failure(ARCH_NOT_BUILT) for a unit that does not compile, Failure(UNSUPPORTED) for more than a block may have.
  Function get(const KernelName& kernel, unsigned shared);
  /// How many clusters of `cluster` blocks of `threads` the card runs at once; asked of the driver once, then remembered.
  int clusters_at_once(const KernelName& kernel, unsigned threads, unsigned shared, unsigned cluster);

 private:
  struct Kernel {
    Function function = nullptr;
    int fixed_shared = 0, allowed = 0;  // bytes of shared memory: what it declares, and how much dynamic memory a launch may ask for
  };
  Module load(const std::string& unit, const void* cubin);
  Kernel find(const KernelName& name);

  std::shared_ptr<const Driver> driver_;
  std::map<std::string, Module, std::less<>> modules_;
  std::map<std::string, Kernel, std::less<>> found_;
  std::map<std::array<std::uintptr_t, 4>, int> clusters_;  // by function, threads, shared memory and blocks of a cluster
  std::vector<std::string> allowed_;                       // with a compiler; empty: all
  std::unique_ptr<KernelCompiler> compiler_;
  int shared_limit_;
};

/// "sm_90a" for 9.0: the form whose kernels may use that architecture's own instructions; "sm_86" for 8.6.
std::string architecture_name(int major, int minor);

}  // namespace quern::cuda
