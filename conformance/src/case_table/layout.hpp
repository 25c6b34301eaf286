// How a value lies in memory: packed, with gaps, permuted, repeated by a stride of 0, or not at the start of its span.
#pragma once

#include "data/tensor.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace quern::conformance {

/// Plain data; {} is packed. What it leads to in bytes is Placement's.
struct Layout {
  std::vector<std::uint32_t> order;  // memory order of the dimensions, outermost first; empty: as they are
  std::int64_t row_gap = 0;          // units (elements, blocks) left free behind each innermost row
  bool shifted = false;              // starts memory_alignment bytes, no more, behind a large alignment
  std::uint32_t repeated = 0;        // bit d: dimension d has stride 0, all its elements are the first (inputs only)

  bool packed() const noexcept { return order.empty() && row_gap == 0 && repeated == 0; }
  /// "packed", "gap3", "order102", "gap1_shifted": as case names spell it.
  std::string name() const;
};

inline Layout rows_apart(std::int64_t gap) { return {{}, gap, false, 0}; }
inline Layout ordered(std::vector<std::uint32_t> order) { return {std::move(order), 0, false, 0}; }
inline Layout shifted() { return {{}, 0, true, 0}; }
inline Layout repeats(std::uint32_t mask) { return {{}, 0, false, mask}; }

/// Strides and bytes of a value of this dtype and these dims under a layout.
class Placement {
 public:
  Placement(quern_dtype dtype, const Dims& dims, const Layout& layout);

  const std::vector<std::int64_t>& strides() const noexcept { return strides_; }  // bytes, one a dimension
  std::uint64_t bytes() const noexcept { return bytes_; }                         // from the first to the last, gaps between

  /// Copies packed units to their places in `memory` (of bytes()), gaps untouched; and back.
  void scatter(std::span<const std::byte> packed, std::span<std::byte> memory) const;
  void gather(std::span<const std::byte> memory, std::span<std::byte> packed) const;
  bool packed() const noexcept { return packed_; }  // no gaps: every byte belongs to an element
  /// One flag a byte of `memory`: whether an element covers it.
  std::vector<bool> covered() const;

 private:
  template <class F>
  void each_row(const F& f) const;  // f(packed offset, memory offset) of each innermost row

  Dims unit_dims_;
  std::vector<std::int64_t> strides_;
  std::uint64_t unit_bytes_ = 0, bytes_ = 0;
  bool packed_ = false;
};

}  // namespace quern::conformance
