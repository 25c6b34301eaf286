// Pipelines by kernel and constants, made at first use; the driver's cache of them is kept on disk.
#pragma once

#include "card.hpp"
#include "kernels.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <mutex>

namespace quern::vulkan {

constexpr std::uint32_t most_constants = 25;

/// A kernel with the constants that specialise it: constant 0 is the workgroup's size, the kernel's own follow.
struct PipelineKey {
  const Kernel* kernel = nullptr;
  std::uint32_t threads = 0;
  std::uint32_t count = 0;
  std::int32_t constants[most_constants] = {};
  bool operator<(const PipelineKey& other) const noexcept;
};

class Pipelines {
 public:
  /// An empty directory: nothing is kept on disk. `warn` takes why what was made is not kept.
  Pipelines(const Calls& calls, VkDevice device, const CardFacts& card, std::string directory,
            std::function<void(const std::string&)> warn);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  VkPipelineLayout layout() const noexcept { return layout_; }
  /// Null where it was not made yet.
  VkPipeline find(const PipelineKey& key) const;
  /// Makes those that are missing, on up to `threads` threads.
  void make(const std::vector<PipelineKey>& keys, std::uint32_t threads);
  /// Writes the driver's cache together with what other processes wrote since it was read, if pipelines were made. Not while any are. Where another
  /// process is writing it is waited for, 2 s at most (one writes tens of MB in a tenth of that; one may be stopped, too).
  void save() noexcept { save(std::chrono::seconds(2)); }
  /// The same where many were, unless another process is writing: a process may end without closing its device.
  void save_many() noexcept;

 private:
  VkPipeline create(const PipelineKey& key) const;
  void save(std::chrono::milliseconds patience) noexcept;
  std::string file() const;
  /// The driver's data in the file; empty: there is none, or it is none of ours.
  std::string read_file() const;
  VkPipelineCache make_cache(const std::string& data) const;

  const Calls& calls_;
  VkDevice device_;
  const CardFacts& card_;
  std::string directory_;
  std::function<void(const std::string&)> warn_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  mutable std::mutex mutex_;
  std::map<PipelineKey, VkPipeline> pipelines_;
  std::uint64_t made_ = 0, saved_ = 0;
};

}  // namespace quern::vulkan
