// Units of kernels compiled by NVRTC when they are first wanted, or found in the cache on disk. Some are begun before anybody asks. What
// another process compiles is left to it, and read when it is wanted.
#pragma once

#include "error.hpp"
#include "kernel_cache.hpp"
#include "nvrtc.hpp"

#include "quern/sdk/thread.hpp"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace quern::cuda {

/// The kernels' sources that are built in.
std::vector<std::string> kernel_units();

class KernelCompiler {
 public:
  /// Begins the units `soon`, one a processor at a time, in their order. Throws Failure(`without_compiler`) where there is no NVRTC.
  KernelCompiler(std::string architecture, const std::string& cache_directory, std::vector<std::string> soon, unsigned threads,
                 quern_status without_compiler);
  /// Units that were begun are finished, and no other begins.
  ~KernelCompiler();
  KernelCompiler(const KernelCompiler&) = delete;
  KernelCompiler& operator=(const KernelCompiler&) = delete;

  /// Any thread. Throws Failure(ARCH_NOT_BUILT) with the compiler's words.
  std::string cubin(const std::string& unit);
  std::string name() const { return concat("NVRTC ", nvrtc_->major(), ".", nvrtc_->minor()); }

 private:
  struct Unit {
    bool begun = false, done = false;
    std::string cubin, log;
  };
  enum class Others { skip, await };
  void make(const std::string& name, Unit& unit, std::unique_lock<std::mutex>& lock, Others others);
  bool compile(const std::string& name, std::string& cubin, std::string& log, Others others) const;
  void work();

  std::string architecture_;
  std::unique_ptr<Nvrtc> nvrtc_;
  KernelCache cache_;
  std::vector<SourceFile> headers_;
  std::string common_key_;
  std::vector<std::string> soon_;
  std::mutex mutex_;  // of what follows
  std::condition_variable finished_;
  std::map<std::string, Unit> units_;
  std::size_t next_ = 0;
  bool ending_ = false;
  std::vector<sdk::Thread> threads_;
};

}  // namespace quern::cuda
