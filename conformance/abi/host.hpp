// A host of a script's own: it counts what a plugin takes from it, and can refuse it.
#pragma once

#include "quern/quern_abi.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace quern::conformance::abi {

/// Outlives the plugin handle that is made with it. Its functions may be called from any thread.
class TestHost {
 public:
  explicit TestHost(std::uint32_t threads = 1);
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  quern_host* table() noexcept { return &table_; }
  std::map<std::string, std::string> options;  // set before create

  /// The allocation of that number, counted from now, is refused; 0: none.
  void fail_at(std::uint64_t number) noexcept;
  std::uint64_t allocations() const noexcept { return allocations_; }  // since the last fail_at
  bool refused() const noexcept { return refused_; }                   // since the last fail_at
  std::uint64_t live_blocks() const;
  std::uint64_t live_bytes() const;
  /// What a release got wrong: a block that is not out, another size. Empty: nothing.
  std::string fault() const;
  std::uint64_t log_lines() const noexcept { return log_lines_; }
  std::uint64_t options_asked() const noexcept { return options_asked_; }

 private:
  void* allocate(std::uint64_t bytes, std::uint64_t alignment) noexcept;
  void release(void* memory, std::uint64_t bytes) noexcept;

  quern_host table_{};
  mutable std::mutex mutex_;
  std::map<void*, std::uint64_t> live_;
  std::string fault_;
  std::atomic<std::uint64_t> allocations_{0}, fail_at_{0}, log_lines_{0}, options_asked_{0};
  std::atomic<bool> refused_{false};
};

}  // namespace quern::conformance::abi
