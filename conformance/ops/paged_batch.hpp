// A batch of sequences over a paged cache: their rows, page tables and what of the cache holds anything.
//
// Pages are dealt out shuffled, some stay unused, and what a table says behind a sequence's last page is out of range: reading it shows.
#pragma once

#include "ops/given.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

struct PagedSequence {
  std::int64_t past = 0, fresh = 1;  // positions written before this run, and rows of this run
};

struct PagedBatch {
  std::vector<PagedSequence> sequences;
  std::int64_t page = 16;
  std::int64_t shared_pages = 0;  // the first pages of every sequence are those of sequence 0
  std::int64_t idle_rows = 0;     // rows of position -1 at the end
  bool interleaved = false;       // rows of the sequences in turn, not one sequence after another
  std::int64_t passed_pages =
      0;                         // the first pages of every sequence are gone: a window has passed them, and the table has no page for them
  std::int64_t spare_pages = 0;  // further pages of no sequence, so that ids are large

  struct Row {
    std::int64_t slot, position;
  };
  std::vector<Row> rows() const;
  std::int64_t length(std::size_t sequence) const { return sequences[sequence].past + sequences[sequence].fresh; }
  std::int64_t longest() const;
  std::int64_t table_width() const;  // one more than the longest needs
  std::int64_t pages() const;        // with the unused ones
  /// Row-major [sequences, table_width].
  std::vector<std::int64_t> table() const;

  ValueSpec table_input() const;
  ValueSpec slot_input() const;
  ValueSpec position_input() const;
  /// "page16_past0.." as a case's name has it.
  std::string name() const;
};

/// A page number and a slot in it, as an index over [pages, page].
std::int64_t cache_slot(const PagedBatch& batch, const std::vector<std::int64_t>& table, std::int64_t sequence, std::int64_t position);

/// Makes the row of one head at an index over [pages, kv_heads, page] NaN (every element, or the scale of each block).
void poison_cache_row(const Tensor& cache, std::int64_t row);

}  // namespace quern::conformance
