// Page bookkeeping; see kv_pages.hpp.
#include "kv_pages.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace quern::runtime {

KvPages::KvPages(std::uint32_t pages, std::uint32_t page_size, std::uint32_t sequences,
                 std::uint32_t pages_per_sequence)
    : page_size_(page_size),
      per_sequence_(pages_per_sequence),
      table_(static_cast<std::size_t>(sequences) * pages_per_sequence, -1),
      used_(sequences, 0),
      owners_(pages, 0) {
  free_.reserve(pages);
  for (std::uint32_t page = pages; page > 0; --page) free_.push_back(static_cast<std::int32_t>(page - 1));
}

bool KvPages::reserve(std::uint32_t slot, std::uint32_t length) {
  const std::uint64_t wanted = (std::uint64_t{length} + page_size_ - 1) / page_size_;
  if (wanted > per_sequence_) return false;
  if (wanted <= used_[slot]) return true;
  if (wanted - used_[slot] > free_.size()) return false;
  while (used_[slot] < wanted) {
    const std::int32_t page = free_.back();
    free_.pop_back();
    owners_[static_cast<std::size_t>(page)] = 1;
    table_[static_cast<std::size_t>(slot) * per_sequence_ + used_[slot]++] = page;
    changed_ = true;
  }
  return true;
}

void KvPages::truncate(std::uint32_t slot, std::uint32_t length) {
  const std::uint32_t kept = (length + page_size_ - 1) / page_size_;
  while (used_[slot] > kept) {
    std::int32_t& entry = table_[static_cast<std::size_t>(slot) * per_sequence_ + --used_[slot]];
    if (--owners_[static_cast<std::size_t>(entry)] == 0) free_.push_back(entry);
    entry = -1;
    changed_ = true;
  }
}

std::uint32_t KvPages::share_prefix(std::uint32_t from, std::uint32_t to, std::uint32_t length) {
  assert(used_[to] == 0);
  const std::uint32_t whole = std::min(length / page_size_, used_[from]);
  for (std::uint32_t i = 0; i < whole; ++i) {
    const std::int32_t page = table_[static_cast<std::size_t>(from) * per_sequence_ + i];
    ++owners_[static_cast<std::size_t>(page)];
    table_[static_cast<std::size_t>(to) * per_sequence_ + i] = page;
  }
  used_[to] = whole;
  if (whole > 0) changed_ = true;
  return whole * page_size_;
}

bool KvPages::take_changed() { return std::exchange(changed_, false); }

std::span<const std::int32_t> KvPages::pages_of(std::uint32_t slot) const {
  return {table_.data() + static_cast<std::size_t>(slot) * per_sequence_, used_[slot]};
}

}  // namespace quern::runtime
