// bf16 copies of quantised weights for products of many rows: made on the device while there is memory, given up when it is wanted.
#pragma once

#include "driver.hpp"
#include "orders.hpp"
#include "tensor.hpp"

#include <map>
#include <mutex>
#include <span>

namespace quern::cuda {

class Gpu;
class Launcher;

class Shadows {
 public:
  explicit Shadows(Gpu& gpu) : gpu_(gpu) {}
  ~Shadows();
  Shadows(const Shadows&) = delete;
  Shadows& operator=(const Shadows&) = delete;

  /// A matrix, and the order in which its columns are: a copy has them as they lie in a row without it.
  struct Source {
    Tensor matrix;
    Order order;
  };
  /// Enqueues making the copies of these matrices, one behind the other, unless they are there; matrices of 16-bit floats need none.
  /// False where memory would become short: `spare_bytes` always stay free for others.
  bool make(std::span<const Source> sources, Launcher& launcher);
  /// The rows of a matrix in bf16 or, if it is of f16, in f16; 0 where there is no copy.
  Address find(const Source& source) const noexcept;
  /// The bytes of a matrix change, or its memory ends.
  void forget(Address from, std::uint64_t bytes) noexcept;
  /// Frees all copies; false where there were none. Waits for runs that read them.
  bool give_up() noexcept;
  /// Held while kernels that read copies are enqueued: what frees them waits for the card.
  std::unique_lock<std::mutex> keep() { return std::unique_lock(in_use_); }
  std::uint64_t bytes() const noexcept { return bytes_; }

  static constexpr std::uint64_t spare_bytes = 1ull << 30;

 private:
  struct Block {
    Address memory = 0;
    std::uint64_t bytes = 0;
    int matrices = 0;
  };
  struct Copy {
    quern_dtype dtype;
    std::int64_t rows, k;
    std::uint64_t source_bytes, order;  // order: its key
    Address at;
    std::size_t block;
  };
  void drop_range(Address from, std::uint64_t bytes) noexcept;
  void drop(std::map<Address, Copy>::iterator copy) noexcept;

  Gpu& gpu_;
  std::map<Address, Copy> copies_;  // by where the matrix lies
  std::map<std::size_t, Block> blocks_;
  std::size_t next_block_ = 0;
  std::uint64_t bytes_ = 0;
  std::mutex in_use_;
};

}  // namespace quern::cuda
