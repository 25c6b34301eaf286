// How an op is offered: it lives in ops/<op>.cpp and is a row there, `<op>_op`, without which nothing is built.
#pragma once

#include "launcher.hpp"

#include <span>

namespace quern::vulkan {

using sdk::Call;
using sdk::Tensor;
using sdk::check_contiguous;
using sdk::check_floats;
using sdk::describe;
using sdk::first_of;
using sdk::is_block;
using sdk::is_contiguous;
using sdk::is_float;

struct Op : sdk::OpOffer {
  /// Launches kernels for the dims of one run; allocates nothing but parameters.
  void (*emit)(const Call& call, Launcher& launcher) = nullptr;
  /// Bytes of memory for the time of the call, at the largest dims.
  std::uint64_t (*scratch)(const Call& call) = nullptr;
  bool float64 = false;  // needs doubles in shaders
  /// Turns of all its loops that one thread takes at the most, at the largest dims, on a device that ends them (the quirk short_loops). Null:
  /// fewer than such a device has, for any dims that its memory holds.
  std::int64_t (*turns)(const Call& call) = nullptr;

  /// Bytes of shared memory that its kernels need at the least, where that may be more than every device has. Null: they fit.
  std::uint64_t (*shared)(const Call& call) = nullptr;

  /// The same row with that.
  constexpr Op with_turns(std::int64_t (*of)(const Call&)) const {
    Op row = *this;
    row.turns = of;
    return row;
  }
  constexpr Op with_shared(std::uint64_t (*of)(const Call&)) const {
    Op row = *this;
    row.shared = of;
    return row;
  }
};

/// Turns of loops after which llvmpipe ends them all, without a word; fewer by what a kernel takes beside the loops that it counts.
inline constexpr std::int64_t most_loop_turns = 65000;

constexpr Op offer(std::uint32_t op, const char* kernel, std::string (*refuse)(const Call&), void (*emit)(const Call&, Launcher&),
                   std::uint64_t (*scratch)(const Call&) = nullptr, bool row_predicate = false, bool float64 = false) {
  Op row;
  row.op = op;
  row.kernel = kernel;
  row.refuse = refuse;
  row.row_predicate = row_predicate;
  row.emit = emit;
  row.scratch = scratch;
  row.float64 = float64;
  return row;
}

/// The row of an op, or null.
const Op* find_op(std::uint32_t op) noexcept;

/// The offers of one device.
class DeviceOffers : public sdk::Offers {
 public:
  explicit DeviceOffers(const CardFacts& card) : card_(card) {}
  const sdk::OpOffer* find(std::uint32_t op) const override {
    const Op* row = find_op(op);
    return row == nullptr || (row->float64 && !card_.float64) ? nullptr : row;
  }
  std::uint64_t layout_bytes(std::string_view key, const quern_value& value) const override;
  std::string refuse(const sdk::OpOffer& offer, const Call& call) const override;
  bool writes_over_input(std::uint32_t) const override { return true; }

 private:
  const CardFacts& card_;
};

}  // namespace quern::vulkan
