// Page bookkeeping; see kv_pages.hpp.
#include "kv_pages.hpp"

#include <cassert>
#include <utility>

namespace quern::runtime {

KvPages::KvPages(std::uint32_t pages, std::uint32_t page_size, std::uint32_t sequences, std::uint32_t pages_per_sequence, CopyPage copy)
    : page_size_(page_size),
      per_sequence_(pages_per_sequence),
      copy_(std::move(copy)),
      table_(static_cast<std::size_t>(sequences) * pages_per_sequence, -1),
      used_(sequences, 0),
      owners_(pages, 0) {
  free_.reserve(pages);  // so that giving back never allocates
  for (std::uint32_t page = pages; page > 0; --page) free_.push_back(static_cast<std::int32_t>(page - 1));
}

bool KvPages::reserve(std::uint32_t slot, std::uint32_t held, std::uint32_t length) {
  if (length <= held) return true;
  const std::uint32_t wanted = pages_for(length), used = used_[slot];
  if (wanted > per_sequence_) return false;
  // Only the first page to be written can be shared. A copy is made at a slot's length, where no page lies behind the last token's, and what
  // reserve() adds is the slot's own.
  const std::uint32_t first = held / page_size_;
  assert(pages_for(held) <= used);
  const bool copies = shared_ > 0 && first < used && owners_[static_cast<std::size_t>(entry(slot, first))] > 1;
  const std::uint32_t added = wanted > used ? wanted - used : 0;
  if (std::size_t{added} + (copies ? 1 : 0) > free_.size()) return false;
  if (copies) make_own(entry(slot, first));
  while (used_[slot] < wanted) {
    const std::int32_t page = free_.back();
    free_.pop_back();
    owners_[static_cast<std::size_t>(page)] = 1;
    entry(slot, used_[slot]++) = page;
    changed_ = true;
  }
  return true;
}

void KvPages::make_own(std::int32_t& page) {
  const std::int32_t own = free_.back();
  copy_(page, own);  // may throw: nothing has changed yet
  free_.pop_back();
  --owners_[static_cast<std::size_t>(page)];
  --shared_;
  owners_[static_cast<std::size_t>(own)] = 1;
  page = own;
  changed_ = true;
}

void KvPages::truncate(std::uint32_t slot, std::uint32_t length) noexcept {
  const std::uint32_t kept = pages_for(length);
  while (used_[slot] > kept) {
    std::int32_t& page = entry(slot, --used_[slot]);
    if (--owners_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
    else --shared_;
    page = -1;
    changed_ = true;
  }
}

void KvPages::share(std::uint32_t from, std::uint32_t to) noexcept {
  assert(from != to && used_[to] == 0);
  for (std::uint32_t i = 0; i < used_[from]; ++i) {
    const std::int32_t page = entry(from, i);
    ++owners_[static_cast<std::size_t>(page)];
    ++shared_;
    entry(to, i) = page;
    changed_ = true;
  }
  used_[to] = used_[from];
}

std::span<const std::int32_t> KvPages::pages_of(std::uint32_t slot) const {
  return {table_.data() + static_cast<std::size_t>(slot) * per_sequence_, used_[slot]};
}

}  // namespace quern::runtime
