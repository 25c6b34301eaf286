// One opened device: its queues, memory, pipelines and what waits.
#pragma once

#include "memory.hpp"
#include "pipelines.hpp"

#include "quern/sdk/run_list.hpp"

#include <array>
#include <functional>
#include <span>

namespace quern::vulkan {

struct GpuOptions {
  std::string cache_directory;
  std::uint32_t threads = 1;                     // that may build pipelines
  Tier most = Tier::matrices;                    // that plans may use
  bool forced = false;                           // by the user's force_kernel
  bool persistent = false;                       // forced: steps of one row are persistent dispatches whatever the model's size
  bool staged = false;                           // device memory counts as out of the processor's reach
  std::function<void(const std::string&)> log;   // of what a developer asks for
  std::function<void(const std::string&)> warn;  // of what a user should know, and no call fails of
};

class Gpu {
 public:
  Gpu(std::shared_ptr<const Api> api, const CardFacts& facts, const GpuOptions& options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Calls& calls() const noexcept { return *calls_; }
  const CardFacts& facts() const noexcept { return facts_; }
  /// Before plans are made.
  void learn(const MatrixLayout& layout) noexcept {
    facts_.layout = layout;
    facts_.by_matrices = true;
  }
  VkDevice device() const noexcept { return device_; }
  Pipelines& pipelines() noexcept { return *pipelines_; }
  const GpuOptions& options() const noexcept { return options_; }
  std::uint32_t threads() const noexcept { return options_.threads; }
  /// Runs, copies and all that records hold it: queues and command pools are for one thread at a time.
  std::mutex& order() noexcept { return order_; }

  // Memory.
  std::uint32_t heap_count() const noexcept { return 1; }
  quern_heap_info heap(std::uint32_t index) const;
  void limit(std::uint32_t, std::uint64_t bytes) noexcept { limit_ = bytes; }
  Memory allocate(std::uint64_t bytes, std::uint32_t usage);
  Memory take(std::uint64_t bytes, const char* what);
  /// Host memory that the device reads and writes: parameters, faults, small results.
  Memory take_shared(std::uint64_t bytes, const char* what);

  // Copies; they wait for their end.
  void write(Memory& to, std::uint64_t offset, const void* from, std::uint64_t bytes) { write(to.address() + offset, from, bytes); }
  void write(std::uint64_t to, const void* from, std::uint64_t bytes);
  void read(void* to, const Memory& from, std::uint64_t offset, std::uint64_t bytes) { read(to, from.address() + offset, bytes); }
  void read(void* to, std::uint64_t from, std::uint64_t bytes);
  void move(Memory& to, std::uint64_t to_offset, const Memory& from, std::uint64_t from_offset, std::uint64_t bytes);
  void fill(Memory& to, std::uint64_t offset, std::uint32_t pattern, std::uint64_t bytes);

  // Command buffers of the queue that computes.
  VkCommandBuffer new_commands();
  void free_commands(VkCommandBuffer commands) noexcept;
  /// Enqueues; returns the point of the timeline that its end reaches.
  std::uint64_t enqueue(VkCommandBuffer commands);
  /// Goes into one submit with what is collected behind it, at the next enqueue() or flush(); returns the point that its end reaches. So runs that
  /// follow one another have no semaphore between them.
  std::uint64_t collect(VkCommandBuffer commands);
  void flush();
  /// Throws Failure too where that point was not enqueued.
  void wait(std::uint64_t point);
  /// Records, runs and waits.
  void once(const std::function<void(VkCommandBuffer)>& record);

  /// Waits for all that was enqueued or collected.
  void settle() {
    flush();
    wait(compute_.enqueued);
  }

  /// Of the next instance: below sdk::most_runs_under_way, in turn.
  std::uint32_t next_slot() noexcept { return slots_.fetch_add(1) % sdk::most_runs_under_way; }
  /// Words that the kernels of runs of a slot set, one bit a kind of fault.
  std::uint64_t faults_address(std::uint32_t slot) const noexcept { return faults_.address() + slot * faults_bytes; }
  std::uint64_t take_faults(std::uint32_t slot) noexcept;
  /// Whether steps of one row may become persistent dispatches: where all their workgroups are known to run at once.
  bool persistent() const noexcept {
    return facts_.persistent_groups != 0 && !options_.forced && (options_.persistent || !facts_.software());
  }
  /// A word that such a dispatch sets when a workgroup of it waited in vain.
  std::uint64_t stalled_address(std::uint32_t slot) const noexcept { return faults_address(slot) + 64; }
  bool take_stalled(std::uint32_t slot) noexcept;

 private:
  static constexpr std::uint64_t faults_bytes = 128;  // of a slot

  void close() noexcept;
  void require_alive() const;
  std::uint64_t budget() const;

  /// A queue, what its command buffers are made from, and the timeline that its submits raise. Two lanes may have the same queue.
  struct Lane {
    VkQueue queue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkSemaphore timeline = VK_NULL_HANDLE;
    std::uint64_t enqueued = 0;  // the point of its last submit
    std::uint64_t awaited = 0;   // the last point of the other lane that a submit of this one waited for
  };
  void open(Lane& lane, std::uint32_t family);
  void close(Lane& lane) noexcept;
  VkCommandBuffer new_commands(const Lane& lane);
  std::uint64_t enqueue(Lane& lane, std::span<const VkCommandBuffer> commands);
  void wait(const Lane& lane, std::uint64_t point);
  /// Records and enqueues; returns the point.
  std::uint64_t start(Lane& lane, VkCommandBuffer commands, const std::function<void(VkCommandBuffer)>& record);
  /// Of uploads and downloads.
  Lane& copying() noexcept { return copies_.queue != VK_NULL_HANDLE ? copies_ : compute_; }
  void upload(std::uint64_t to, const std::byte* from, std::uint64_t bytes);
  void download(std::byte* to, std::uint64_t from, std::uint64_t bytes);

  std::shared_ptr<const Api> api_;
  CardFacts facts_;
  GpuOptions options_;
  VkDevice device_ = VK_NULL_HANDLE;
  std::unique_ptr<Calls> calls_;
  Lane compute_, copies_;  // no copies_ where the processor writes device memory itself
  std::array<VkCommandBuffer, sdk::most_runs_under_way> collected_{};
  std::size_t collected_count_ = 0;
  std::unique_ptr<Pipelines> pipelines_;
  std::unique_ptr<MemoryPool> memory_, shared_;
  struct Half {                            // of the staging memory: the processor fills or reads one while the device copies the other
    std::uint64_t offset = 0, copied = 0;  // in it; the point of its last copy, of copying()
    VkCommandBuffer commands = VK_NULL_HANDLE;
  };
  Memory staging_, faults_;
  Half halves_[2];
  VkCommandBuffer once_ = VK_NULL_HANDLE;
  std::atomic<std::uint64_t> limit_{UINT64_MAX};
  std::atomic<bool> lost_{false};
  std::atomic<std::uint32_t> slots_{0};
  std::mutex order_;
};

/// The memory barrier behind shaders that write what commands behind it read or write.
void barrier(const Calls& calls, VkCommandBuffer commands, VkPipelineStageFlags to, VkAccessFlags access);

}  // namespace quern::vulkan
