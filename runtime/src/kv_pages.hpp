// Which pages of the KV cache belong to which sequence.
//
// Host bookkeeping only: the pages themselves are state on the device, found through the block table that this class keeps.
// Pages may be shared by sequences that begin with the same tokens; a shared page is never written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern::runtime {

class KvPages {
 public:
  KvPages(std::uint32_t pages, std::uint32_t page_size, std::uint32_t sequences, std::uint32_t pages_per_sequence);

  /// Makes room for positions [0, length) of the slot. False, and no change, if there are not enough free pages.
  bool reserve(std::uint32_t slot, std::uint32_t length);
  /// Keeps the pages of positions [0, length) and gives back the rest.
  void truncate(std::uint32_t slot, std::uint32_t length);
  /// Lets `to` (empty) share the whole pages of `from` below `length`; returns the number of positions shared.
  std::uint32_t share_prefix(std::uint32_t from, std::uint32_t to, std::uint32_t length);

  /// [sequences, pages_per_sequence], -1 where there is no page.
  std::span<const std::int32_t> block_table() const { return table_; }
  /// True once after the table changed.
  bool take_changed();
  std::uint32_t free_pages() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t page_size() const { return page_size_; }
  std::span<const std::int32_t> pages_of(std::uint32_t slot) const;

 private:
  std::uint32_t page_size_;
  std::uint32_t per_sequence_;
  std::vector<std::int32_t> table_;
  std::vector<std::uint32_t> used_;   // pages of each slot
  std::vector<std::uint16_t> owners_; // of each page
  std::vector<std::int32_t> free_;    // last is taken first
  bool changed_ = true;
};

}  // namespace quern::runtime
