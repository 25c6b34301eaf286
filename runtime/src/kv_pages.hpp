// Which pages of the KV cache belong to which sequence.
//
// Host bookkeeping only: the pages themselves are state on the device, found through the block table that this class keeps.
// Sequences that begin with the same tokens may share pages, the last one too where it is not full. A page with more than one owner is never
// written: reserve() gives a slot that goes on a copy of its last page first.
//
// A copy needs no page beyond the slots' own shares. Let u(s) be the pages of slot s, at most pages_per_sequence, and d the different pages in
// use. Each page in use is in the list of a slot, so d <= sum of u(s). Where a page is in two lists, d <= sum of u(s) - 1. A copy takes one page and
// changes no u(s), so d <= sum of u(s) holds after it. Growth raises u(s) within the slot's share, and d by as much. So with
// sequences * pages_per_sequence pages in all, the pages for a copy and for growth are free whenever they are asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace quern::runtime {

class KvPages {
 public:
  /// Copies what page `from` holds to page `to`, before any row of a later step is written.
  using CopyPage = std::function<void(std::int32_t from, std::int32_t to)>;

  KvPages(std::uint32_t pages, std::uint32_t page_size, std::uint32_t sequences, std::uint32_t pages_per_sequence, CopyPage copy);

  /// Lets the slot, which holds rows [0, held) in their pages, write rows [held, length): pages for them are there, and no other slot reads them.
  /// False, and no change, if there are not enough free pages. What the copy of a page throws goes on, without a change.
  bool reserve(std::uint32_t slot, std::uint32_t held, std::uint32_t length);
  /// Keeps the pages of positions [0, length) and gives back the rest.
  void truncate(std::uint32_t slot, std::uint32_t length) noexcept;
  /// Lets `to` (empty) share all pages of `from`.
  void share(std::uint32_t from, std::uint32_t to) noexcept;

  /// [sequences, pages_per_sequence], -1 where there is no page.
  std::span<const std::int32_t> block_table() const { return table_; }
  /// Whether the table changed since what it was is known where it is read.
  bool changed() const noexcept { return changed_; }
  void mark_known() noexcept { changed_ = false; }
  std::uint32_t free_pages() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t page_size() const { return page_size_; }
  std::uint32_t pages_for(std::uint64_t length) const { return static_cast<std::uint32_t>((length + page_size_ - 1) / page_size_); }
  std::span<const std::int32_t> pages_of(std::uint32_t slot) const;

 private:
  std::int32_t& entry(std::uint32_t slot, std::uint32_t index) { return table_[static_cast<std::size_t>(slot) * per_sequence_ + index]; }
  void make_own(std::int32_t& page);

  std::uint32_t page_size_;
  std::uint32_t per_sequence_;
  CopyPage copy_;
  std::vector<std::int32_t> table_;
  std::vector<std::uint32_t> used_;    // pages of each slot
  std::vector<std::uint32_t> owners_;  // of each page
  std::vector<std::int32_t> free_;     // last is taken first
  std::uint64_t shared_ = 0;           // owners of all pages beyond the first of each; 0: no step looks for a page to copy
  bool changed_ = true;
};

}  // namespace quern::runtime
