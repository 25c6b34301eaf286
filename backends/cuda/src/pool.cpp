// See pool.hpp.
#include "pool.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace quern::cuda {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

AllocationProperties properties_of(int card) {
  AllocationProperties properties{};
  properties.type = constant::allocation_pinned;
  properties.location = {constant::location_device, card};
  return properties;
}

}  // namespace

Pool::Pool(const Driver& driver, int card, std::uint64_t memory) : driver_(driver), card_(card) {
  const AllocationProperties properties = properties_of(card);
  std::size_t grain = 0;
  driver.check(driver.cuMemGetAllocationGranularity(&grain, &properties, constant::granularity_minimum), "asking how memory is cut");
  grain_ = grain;
  reserved_ = round_up(2 * memory, grain_);  // holes between what is taken cost addresses, no memory
  driver.check(driver.cuMemAddressReserve(&base_, reserved_, 0, 0, 0), "reserving addresses");
}

Pool::~Pool() {
  for (const auto& [at, piece] : pieces_) {
    driver_.cuMemUnmap(base_ + at, piece.bytes);
    driver_.cuMemRelease(piece.handle);
  }
  driver_.cuMemAddressFree(base_, reserved_);
}

/// Adds to what is taken of each piece in a range.
void Pool::count(std::uint64_t from, std::uint64_t to, bool takes) noexcept {
  auto at = pieces_.upper_bound(from);
  if (at != pieces_.begin()) --at;
  for (; at != pieces_.end() && at->first < to; ++at) {
    const std::uint64_t first = std::max(from, at->first), last = std::min(to, at->first + at->second.bytes);
    if (first >= last) continue;
    if (takes) at->second.taken += last - first;
    else at->second.taken -= last - first;
  }
}

/// Maps what is not mapped of a range; false where the driver has no memory, and nothing was mapped.
bool Pool::map(std::uint64_t from, std::uint64_t to, const char* what) {
  const AllocationProperties properties = properties_of(card_);
  const AccessDescription access{properties.location, constant::access_read_write};
  std::vector<std::uint64_t> made;
  Result result = constant::success;
  for (std::uint64_t at = from / grain_ * grain_; at < to && result == constant::success;) {
    auto next = pieces_.upper_bound(at);
    if (next != pieces_.begin())
      if (const auto before = std::prev(next); before->first + before->second.bytes > at) {
        at = before->first + before->second.bytes;
        continue;
      }
    std::uint64_t end = std::min(round_up(to, grain_), at + largest_piece);
    if (next != pieces_.end()) end = std::min(end, next->first);
    made.push_back(at);  // what may throw comes before what the driver does
    const auto made_at = pieces_.emplace(at, Piece{end - at, 0, 0}).first;
    Piece& piece = made_at->second;
    result = driver_.cuMemCreate(&piece.handle, piece.bytes, &properties, 0);
    if (result == constant::success) {
      result = driver_.cuMemMap(base_ + at, piece.bytes, 0, piece.handle, 0);
      if (result == constant::success) {
        result = driver_.cuMemSetAccess(base_ + at, piece.bytes, &access, 1);
        if (result != constant::success) driver_.cuMemUnmap(base_ + at, piece.bytes);
      }
      if (result != constant::success) driver_.cuMemRelease(piece.handle);
    }
    if (result != constant::success) {
      pieces_.erase(made_at);
      made.pop_back();
      break;
    }
    statistics_.mapped += piece.bytes;
    at = end;
  }
  if (result == constant::success) {
    statistics_.most_mapped = std::max(statistics_.most_mapped, statistics_.mapped);
    return true;
  }
  for (const std::uint64_t at : made) {
    const Piece piece = pieces_.at(at);
    driver_.cuMemUnmap(base_ + at, piece.bytes);
    driver_.cuMemRelease(piece.handle);
    statistics_.mapped -= piece.bytes;
    pieces_.erase(at);
  }
  if (result != constant::out_of_memory) driver_.check(result, what);
  return false;
}

void Pool::unmap_idle() noexcept {
  driver_.cuCtxSynchronize();  // work that was enqueued may still use it
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    if (at->second.taken > 0) {
      ++at;
      continue;
    }
    driver_.cuMemUnmap(base_ + at->first, at->second.bytes);
    driver_.cuMemRelease(at->second.handle);
    statistics_.mapped -= at->second.bytes;
    at = pieces_.erase(at);
  }
}

DevicePointer Pool::take(std::uint64_t bytes, const char* what) {
  const std::lock_guard lock(mutex_);
  if (bytes > reserved_) return 0;  // as may be so many that rounding them up gives none
  const std::uint64_t whole = round_up(std::max<std::uint64_t>(bytes, 1), alignment);
  if (whole > reserved_ || (!ranges_.fits(whole) && whole > reserved_ - ranges_.end())) return 0;
  const std::uint64_t at = ranges_.take(whole);
  try {
    bool mapped = map(at, at + whole, what);
    if (!mapped && statistics_.mapped > statistics_.taken) {
      unmap_idle();
      mapped = map(at, at + whole, what);
    }
    if (!mapped) {
      ranges_.give(at, whole);
      return 0;
    }
  } catch (...) {
    ranges_.give(at, whole);
    throw;
  }
  count(at, at + whole, true);
  statistics_.taken += whole;
  return base_ + at;
}

void Pool::give(DevicePointer memory, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = memory - base_, whole = round_up(std::max<std::uint64_t>(bytes, 1), alignment);
  count(at, at + whole, false);
  statistics_.taken -= whole;
  try {
    ranges_.give(at, whole);
  } catch (const std::bad_alloc&) {  // the process has no memory to note the range in: its addresses stay unused, its memory does not
  }
  std::uint64_t idle = 0;
  for (const auto& [offset, piece] : pieces_)
    if (piece.taken == 0) idle += piece.bytes;
  if (idle > most_idle) unmap_idle();
}

void Pool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  unmap_idle();
}

Pool::Statistics Pool::statistics() const noexcept {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace quern::cuda
