// See host_memory.hpp.
#include "worker/host_memory.hpp"

#include "quern/loader/host_limits.hpp"
#include "worker/arena.hpp"

#include <algorithm>
#include <utility>

namespace quern::conformance {
namespace {

std::string in_mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::uint64_t host_bytes(const Case& c) {
  const std::uint64_t in = input_bytes(c), out = output_bytes(c);
  if (c.graph) return 3 * in + out;      // here, in the device process, and packed
  std::uint64_t memory = 0, copies = 0;  // of the device; of what has gaps, as it was and as it is
  bool constants = false;
  for (const auto* list : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *list) {
      if (v.absent()) continue;
      const Placement placement(v.dtype, v.dims, v.layout);
      constants = constants || v.kind == QUERN_VALUE_CONSTANT;
      if (v.in_place_of < 0) memory += placement.bytes();
      if (!placement.packed()) copies += 2 * placement.bytes();
    }
  const std::uint64_t modes = (c.fast_conversions != 0 ? 2 : 1) * (constants ? 2 : 1);
  return in + (constants ? 2 : 1) * memory + copies + out * (2 * modes + 2);  // outputs there and here, a second run's, the expected ones
}

std::uint64_t available_host_bytes() { return loader::host_memory().available.value_or(UINT64_MAX); }

HostMemory::Reservation::~Reservation() {
  if (from_ == nullptr) return;
  {
    const std::lock_guard lock(from_->mutex_);
    from_->held_ -= bytes_;
  }
  from_->given_back_.notify_all();
}

HostMemory::Reservation::Reservation(Reservation&& other) noexcept
    : from_(std::exchange(other.from_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory::Reservation HostMemory::reserve(std::uint64_t bytes, std::string& lacking) {
  if (bytes < worth_counting) return {};
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return held_ == 0 || held_ + bytes <= room_; });
  if (held_ == 0) {
    const std::uint64_t available = available_(), most = available / 10 * 9;
    room_ = limit_ == 0 ? most : std::min(limit_, most);
    if (bytes > room_) {
      lacking = "the case needs " + in_mib(bytes) + " of host memory, " +
                (limit_ != 0 && limit_ < most ? "--memory allows " + in_mib(limit_) : in_mib(available) + " are available");
      return {};
    }
  }
  held_ += bytes;
  return {*this, bytes};
}

}  // namespace quern::conformance
