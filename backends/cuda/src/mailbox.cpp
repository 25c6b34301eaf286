// See mailbox.hpp.
#include "mailbox.hpp"

#include <algorithm>
#include <cstring>

namespace quern::cuda {

Mailbox::Mailbox(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
  try {
    take();
  } catch (...) {
    give_back();
    throw;
  }
}

Mailbox::~Mailbox() { give_back(); }

void Mailbox::take() {
  constexpr std::size_t head = 16, list = capacity_entries * sizeof(Patch), mirrors = std::size_t{mirror_bytes} * mirror_count;
  constexpr std::size_t pages = std::size_t{sdk::most_runs_under_way} * page_bytes;
  static_assert(head + list + capacity_bytes == page_bytes);
  waiting_ = std::make_unique<std::byte[]>(page_bytes);
  count_ = reinterpret_cast<std::uint32_t*>(waiting_.get());
  entries_ = reinterpret_cast<Patch*>(waiting_.get() + head);
  bytes_ = waiting_.get() + head + list;
  void* memory = nullptr;
  driver_->check(driver_->cuMemHostAlloc(&memory, pages + mirrors, constant::host_mapped), "taking pinned host memory");
  memory_ = static_cast<std::byte*>(memory);
  Address device = 0;
  driver_->check(driver_->cuMemHostGetDevicePointer_v2(&device, memory, 0), "mapping host memory");
  mirrors_ = memory_ + pages;
  mirrors_device_ = device + pages;
  driver_->check(driver_->cuMemAlloc_v2(&page_, page_bytes), "taking memory for small writes");
  params_ = {page_, page_ + head, page_ + head + list};
  list_.reserve(mirror_count);
}

void Mailbox::give_back() noexcept {
  if (memory_ != nullptr) driver_->cuMemFreeHost(memory_);
  if (page_ != 0) driver_->cuMemFree_v2(page_);
}

void Mailbox::post(std::uint32_t slot) noexcept {
  const auto used = posted_[slot] = static_cast<std::uint32_t>(bytes_ - waiting_.get()) + used_;
  std::memcpy(memory_ + std::size_t{slot} * page_bytes, waiting_.get(), used);
  *count_ = 0;
  used_ = 0;
}

void Mailbox::copy_page(Stream stream, std::uint32_t slot, bool small) const {
  driver_->check(driver_->cuMemcpyHtoDAsync_v2(page_, page(slot), small ? small_bytes : page_bytes, stream), "copying small writes");
}

void Mailbox::copy_rest(Stream stream, std::uint32_t slot) const {
  const std::uint32_t used = posted_[slot];
  if (used > small_bytes)
    driver_->check(driver_->cuMemcpyHtoDAsync_v2(page_ + small_bytes, page(slot) + small_bytes, used - small_bytes, stream),
                   "copying small writes");
}

bool Mailbox::fits(std::uint64_t bytes) const noexcept {
  return bytes <= largest && *count_ < capacity_entries && used_ + bytes + 16 <= capacity_bytes;
}

void Mailbox::put(Address to, const void* bytes, std::uint32_t count) noexcept {
  forget(to, count);
  // Entries are delivered side by side, in no order: those that have bytes in common hold the same there, the newest.
  const auto* from = static_cast<const std::byte*>(bytes);
  bool held = false;  // all of it by one entry
  for (std::uint32_t i = 0; i < *count_; ++i) {
    const Patch& earlier = entries_[i];
    const Address begin = std::max(to, earlier.to), end = std::min(to + count, earlier.to + earlier.bytes);
    if (begin >= end) continue;
    std::memcpy(bytes_ + earlier.offset + (begin - earlier.to), from + (begin - to), end - begin);
    held = held || end - begin == count;
  }
  if (held) return;
  // A write that follows the one before, in the device and here, is one with it.
  const std::uint32_t entries = *count_;
  if (entries > 0) {
    Patch& last = entries_[entries - 1];
    if (last.to + last.bytes == to && last.offset + last.bytes == used_) {
      std::memcpy(bytes_ + used_, bytes, count);
      last.bytes += count;
      used_ += count;
      return;
    }
  }
  used_ = (used_ + 15) / 16 * 16;
  std::memcpy(bytes_ + used_, bytes, count);
  entries_[entries] = {to, used_, count};
  used_ += count;
  *count_ = entries + 1;
}

Mailbox::Mirror* Mailbox::add_mirror(Address from, std::uint32_t bytes) {
  if (bytes > mirror_bytes || bytes % 4 != 0 || from % 4 != 0) return nullptr;
  for (std::uint32_t i = 0; i < mirror_count; ++i) {
    std::byte* host = mirrors_ + std::size_t{i} * mirror_bytes;
    if (std::ranges::any_of(list_, [&](const auto& m) { return m->host == host; })) continue;
    list_.push_back(std::make_unique<Mirror>(Mirror{from, bytes, host, mirrors_device_ + Address{i} * mirror_bytes, false}));
    return list_.back().get();
  }
  return nullptr;
}

void Mailbox::remove_mirror(Mirror* mirror) noexcept {
  std::erase_if(list_, [&](const auto& m) { return m.get() == mirror; });
}

const void* Mailbox::mirrored(Address from, std::uint64_t bytes) const noexcept {
  for (const auto& m : list_)
    if (m->valid && from >= m->from && from + bytes <= m->from + m->bytes) return static_cast<const std::byte*>(m->host) + (from - m->from);
  return nullptr;
}

void Mailbox::forget(Address from, std::uint64_t bytes) noexcept {
  for (const auto& m : list_)
    if (from < m->from + m->bytes && m->from < from + bytes) m->valid = false;
}

}  // namespace quern::cuda
