// One bound value as numbers: what edits of inputs and outputs read and write, whatever its dtype and strides.
#pragma once

#include "graph_copy.hpp"

namespace quern::mutant {

class Slot {
 public:
  Slot() = default;
  /// `data` is where the value lies; null: absent. Ranged values count as absent: their extent is not known here.
  Slot(const quern_value& value, std::byte* data);

  /// The same value in other memory.
  Slot over(std::byte* data) const noexcept {
    Slot other = *this;
    other.data_ = data;
    return other;
  }

  bool absent() const noexcept { return data_ == nullptr; }
  quern_dtype dtype() const noexcept { return value_.dtype; }
  std::uint32_t rank() const noexcept { return value_.rank; }
  std::int64_t dim(std::uint32_t d) const noexcept { return value_.dims[d]; }
  /// Of the last dimension, 1 of a scalar; count() / row().
  std::int64_t row() const noexcept { return value_.rank == 0 ? 1 : value_.dims[value_.rank - 1]; }
  std::int64_t rows() const noexcept { return row() == 0 ? 0 : count() / row(); }
  /// Elements; of a block format blocks, the last dimension counted in them. 0 if absent.
  std::int64_t count() const noexcept { return count_; }
  bool is_block() const noexcept { return unit_elements_ != 1; }

  std::byte* at(std::int64_t i) const noexcept;  // element or block i
  std::uint64_t unit_bytes() const noexcept { return unit_bytes_; }
  double get(std::int64_t i) const noexcept;  // not of blocks
  void set(std::int64_t i, double x) const noexcept;
  /// Largest byte offset that the value covers, plus one; strides counted.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  quern_value value_{};
  std::byte* data_ = nullptr;
  std::int64_t count_ = 0, unit_elements_ = 1;
  std::uint64_t unit_bytes_ = 0, bytes_ = 0;
  std::int64_t strides_[QUERN_MAX_DIMS] = {};
};

/// Whether its elements are floats.
inline bool is_real(const Slot& y) { return y.dtype() == QUERN_F32 || y.dtype() == QUERN_F16 || y.dtype() == QUERN_BF16; }

}  // namespace quern::mutant
