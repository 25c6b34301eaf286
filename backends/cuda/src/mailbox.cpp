// See mailbox.hpp.
#include "mailbox.hpp"

#include <algorithm>
#include <cstring>

namespace quern::cuda {

Mailbox::Mailbox(const Driver& driver, Mirrors& mirrors) : driver_(driver), mirrors_(mirrors) {
  constexpr std::size_t head = 16, list = capacity_entries * sizeof(Patch);
  static_assert(head + list + capacity_bytes == page_bytes);
  waiting_ = std::make_unique<std::byte[]>(page_bytes);
  count_ = reinterpret_cast<std::uint32_t*>(waiting_.get());
  entries_ = reinterpret_cast<Patch*>(waiting_.get() + head);
  bytes_ = waiting_.get() + head + list;
  driver_.check(driver_.cuMemAlloc_v2(&page_, page_bytes), "taking memory for small writes");
  params_ = {page_, page_ + head, page_ + head + list};
}

Mailbox::~Mailbox() { driver_.cuMemFree_v2(page_); }

void Mailbox::post(Slot& slot) noexcept {
  slot.posted = static_cast<std::uint32_t>(bytes_ - waiting_.get()) + used_;
  std::memcpy(slot.page, waiting_.get(), slot.posted);
  *count_ = 0;
  used_ = 0;
}

void Mailbox::copy_page(Stream stream, const Slot& slot, bool small) const {
  driver_.check(driver_.cuMemcpyHtoDAsync_v2(page_, slot.page, small ? small_bytes : page_bytes, stream), "copying small writes");
}

void Mailbox::copy_rest(Stream stream, const Slot& slot) const {
  if (slot.posted > small_bytes)
    driver_.check(driver_.cuMemcpyHtoDAsync_v2(page_ + small_bytes, slot.page + small_bytes, slot.posted - small_bytes, stream),
                  "copying small writes");
}

bool Mailbox::fits(std::uint64_t bytes) const noexcept {
  return bytes <= largest && *count_ < capacity_entries && used_ + bytes + 16 <= capacity_bytes;
}

void Mailbox::put(Address to, const void* bytes, std::uint32_t count) noexcept {
  mirrors_.forget(to, count);
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

}  // namespace quern::cuda
