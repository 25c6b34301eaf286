// Orders of columns, as `take` in front of products has them: their indices, read when an instance is prepared, and the inverse of each.
//
// Who stores a row writes element i at places[i]. That fills the ordered row only where the index names each element once. So it is looked at here, and a
// schedule that relies on it (Schedule::orders) is for instances whose indices are such.
#pragma once

#include "driver.hpp"
#include "kernels/params.hpp"
#include "quern/quern_abi.h"

#include <map>
#include <span>
#include <vector>

namespace quern::cuda {

class Lane;

struct Order {
  Address index = 0, places = 0;  // i32 [k]: element j of an ordered row is element index[j] of the row, and element i is at places[i]
  std::uint64_t key = 0;          // of its numbers; 0: columns lie as they come
};

/// Of one instance.
class Orders {
 public:
  struct Index {
    std::uint32_t value;
    std::uint64_t count;
    bool operator==(const Index&) const = default;
  };
  /// The memory that places() needs.
  static std::uint64_t bytes(std::span<const Index> indices) noexcept;

  /// Reads each index where `place` says that its value lies, and writes the inverses to `memory`. Whether each names every element once; if not, none is kept.
  bool read(std::span<const Index> indices, std::span<const std::uint64_t> place, Address memory, Lane& lane);
  /// Of none, no order.
  Order of(std::uint32_t value) const { return value == QUERN_NONE ? Order{} : orders_.at(value); }

 private:
  std::map<std::uint32_t, Order> orders_;
};

}  // namespace quern::cuda
