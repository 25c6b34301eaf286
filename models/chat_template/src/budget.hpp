// What reading or rendering one template has used of its limits: steps, memory and time on the CPU.
//
// All work is counted by its size, so that steps bound it. The clock lies below: what steps count too low, on a
// slow machine say, ends there. Memory is counted where it is allocated, spare room of vectors and texts included.
#pragma once

#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quern::jinja {

/// What the allocator adds to one block of memory: its header and the rounding up to 16 bytes.
inline constexpr std::uint64_t block_overhead = 24;
/// A shared value with its control block.
template <typename T>
inline constexpr std::uint64_t shared_size = sizeof(T) + 16 + block_overhead;

/// Seconds on the calling thread's clock: what other threads and other processes do costs a template nothing.
double cpu_seconds() noexcept;

class Budget {
 public:
  /// The time counts from here on. `template_name` must outlive the budget.
  Budget(const std::string& template_name, const TemplateLimits& limits);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void set_line(int line) noexcept { line_ = line; }
  int line() const noexcept { return line_; }
  const TemplateLimits& limits() const noexcept { return limits_; }
  const std::string& template_name() const noexcept { return template_name_; }

  /// Throws Error(QUERN_BAD_MODEL): the template does what Jinja2 refuses too, or passes a limit.
  [[noreturn]] void fail(const std::string& text) const;
  /// Throws Error(QUERN_UNSUPPORTED).
  [[noreturn]] void unsupported(const std::string& text) const;
  /// Throws Error(QUERN_INVALID_ARGUMENT).
  [[noreturn]] void refuse(const std::string& text) const;

  /// Counts work, and looks at the clock now and then. Every loop whose length a template chooses calls this or one of
  /// the two below at least once for each block_of_text bytes it handles.
  void step(std::uint64_t count = 1) {
    if (__builtin_add_overflow(steps_, count, &steps_)) steps_ = UINT64_MAX;
    if (steps_ >= next_look_) look();
  }
  /// Counts work on this many bytes of text.
  void step_text(std::uint64_t bytes) { step(bytes / 64 + (bytes % 64 != 0)); }
  /// The same, for work that looks up each code point.
  void step_characters(std::uint64_t bytes) { step(bytes / 8 + (bytes % 8 != 0)); }

  void take(std::uint64_t bytes);
  void give(std::uint64_t bytes) noexcept { held_ -= bytes; }
  std::uint64_t held() const noexcept { return held_; }

 private:
  void look();

  const std::string& template_name_;
  TemplateLimits limits_;
  int line_ = 1;
  std::uint64_t steps_ = 0;
  std::uint64_t next_look_ = 0;
  std::uint64_t held_ = 0;
  double started_;  // seconds on the thread's clock
};

/// How much text a loop may handle before it counts that.
inline constexpr std::size_t block_of_text = 256;

/// Memory that a value holds, counted by its budget while the value lives.
class Charge {
 public:
  Charge() noexcept = default;
  Charge(Budget& budget, std::uint64_t bytes) : budget_(&budget) { grow(bytes); }
  Charge(Charge&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give(bytes_);
  }
  void grow(std::uint64_t bytes) {
    budget_->take(bytes);
    bytes_ += bytes;
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Takes over what another one of the same budget holds.
  void join(Charge other) noexcept {
    if (budget_ == nullptr) budget_ = other.budget_;
    bytes_ += std::exchange(other.bytes_, 0);
  }

 private:
  Budget* budget_ = nullptr;  // null for the constants of a template, which outlive every render
  std::uint64_t bytes_ = 0;
};

/// Counts what a container allocates, while old and new memory of one that grows both exist too.
template <typename T>
class CountingAllocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  CountingAllocator(Budget& budget) noexcept : budget_(&budget) {}  // NOLINT: a container is made of a budget
  template <typename U>
  CountingAllocator(const CountingAllocator<U>& other) noexcept : budget_(other.budget_) {}  // NOLINT

  T* allocate(std::size_t count) {
    const std::uint64_t bytes = bytes_of(count);
    budget_->take(bytes);
    try {
      return std::allocator<T>().allocate(count);
    } catch (...) {
      budget_->give(bytes);
      throw;
    }
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    std::allocator<T>().deallocate(memory, count);
    budget_->give(bytes_of(count));
  }
  bool operator==(const CountingAllocator& other) const noexcept { return budget_ == other.budget_; }

 private:
  template <typename U>
  friend class CountingAllocator;
  static std::uint64_t bytes_of(std::size_t count) noexcept { return count * sizeof(T) + block_overhead; }

  Budget* budget_;
};

/// A vector whose memory is counted. It cannot be made without a budget.
template <typename T>
using Counted = std::vector<T, CountingAllocator<T>>;

}  // namespace quern::jinja
