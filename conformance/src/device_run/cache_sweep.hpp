// Empties the caches between two timed runs, so that a bandwidth is that of the memory.
#pragma once

#include "quern/loader/loader.hpp"

#include <memory>

namespace quern::conformance {

/// Copies 128 MiB to other 128 MiB of the device by its own copy op. Its memory is taken at the first run(). One thread.
class CacheSweep {
 public:
  explicit CacheSweep(const loader::Device& device);
  ~CacheSweep();
  CacheSweep(const CacheSweep&) = delete;
  CacheSweep& operator=(const CacheSweep&) = delete;

  /// Does nothing on a device that has no copy or no room for it.
  void run();
  bool works() const noexcept;

 private:
  struct Parts;
  const loader::Device& device_;
  std::unique_ptr<Parts> parts_;
  bool tried_ = false;
};

}  // namespace quern::conformance
