// One opened GPU: its context, kernels, memory accounting, and what its lanes share.
#pragma once

#include "driver.hpp"
#include "blas.hpp"
#include "kernels.hpp"
#include "mirrors.hpp"
#include "pool.hpp"
#include "shadows.hpp"
#include "slots.hpp"
#include "staging.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

namespace quern::cuda {

/// What can be told of a card without a context.
struct CardFacts {
  int ordinal = 0;
  int handle = 0;
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int shared_limit = 0;  // bytes of shared memory that a block may ask for
  bool integrated = false;
  bool reserves_addresses = false;  // memory can be mapped into addresses that were reserved
  std::string name, pci_address;
  Uuid uuid{};
  std::uint64_t memory = 0;

  /// 16-bit products with f32 sums (kernels/matrix.cuh).
  bool has_matrix_units() const noexcept { return major >= 8; }
  /// Copies of whole tiles to shared memory that a barrier counts (kernels/bulk.cuh), and clusters.
  bool has_bulk_copies() const noexcept { return major >= 9; }
  /// Products of warpgroups (kernels/groups.cuh), which newer cards have in another form.
  bool has_warpgroup_products() const noexcept { return major == 9; }
};
std::vector<CardFacts> list_cards(const Driver& driver);

class Gpu {
 public:
  /// `warn` takes what a user should know and no call fails of.
  Gpu(std::shared_ptr<const Driver> driver, const CardFacts& facts, const KernelOrigin& origin,
      std::function<void(const std::string&)> warn);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Driver& driver() const noexcept { return *driver_; }
  const CardFacts& facts() const noexcept { return facts_; }
  Context context() const noexcept { return context_; }
  Kernels& kernels() noexcept { return *kernels_; }
  Slots& slots() noexcept { return *slots_; }
  Mirrors& mirrors() noexcept { return *mirrors_; }
  Shadows& shadows() noexcept { return *shadows_; }
  Staging& staging() noexcept { return *staging_; }
  /// cuBLASLt, opened at the first call that may open it; null where it is not installed or not wanted.
  Blas* blas();
  bool programmatic_launch() const noexcept { return facts_.major >= 9; }
  /// All calls that enqueue hold it.
  std::mutex& order() noexcept { return order_; }

  /// Device memory. Throws Failure(OUT_OF_MEMORY) with requested and available bytes.
  /// Where there is none, 16-bit copies of weights are given up first, unless the memory is for such a copy.
  DevicePointer allocate(std::uint64_t bytes, const char* what, bool for_shadow = false);
  void release(DevicePointer memory, std::uint64_t bytes) noexcept;
  /// Gives idle memory back to the driver; from level 1 on the 16-bit copies of weights and pinned memory too.
  void trim(std::uint32_t level) noexcept;
  /// What the pool holds of the driver's memory; zeros where a card cannot have one.
  Pool::Statistics pool() const noexcept { return pool_ != nullptr ? pool_->statistics() : Pool::Statistics{}; }
  std::uint64_t used() const noexcept { return used_; }
  /// Made so far.
  std::uint64_t allocations() const noexcept { return allocations_; }
  void set_limit(std::uint64_t bytes) noexcept { limit_ = bytes; }
  /// Bytes that this process may use at most, as things are.
  std::uint64_t budget() const;

  void warn(const std::string& text) const { warn_(text); }

 private:
  /// Gives back what was taken, all of it or what a constructor that fails had taken.
  void close() noexcept;

  std::shared_ptr<const Driver> driver_;
  CardFacts facts_;
  std::function<void(const std::string&)> warn_;
  Context context_ = nullptr;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Slots> slots_;
  std::unique_ptr<Mirrors> mirrors_;
  std::unique_ptr<Shadows> shadows_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Blas> blas_;
  bool blas_wanted_, blas_tried_ = false;
  std::atomic<std::uint64_t> used_{0}, limit_{UINT64_MAX}, allocations_{0};
  std::mutex order_;
};

}  // namespace quern::cuda
