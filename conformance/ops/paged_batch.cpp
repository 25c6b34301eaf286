// See paged_batch.hpp.
#include "ops/paged_batch.hpp"

#include "data/block_format.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace quern::conformance {
namespace {

std::int64_t page_count(const PagedBatch& batch, std::size_t sequence) { return (batch.length(sequence) + batch.page - 1) / batch.page; }

constexpr std::size_t most_named = 16;  // sequences that a name lists

}  // namespace

std::vector<PagedBatch::Row> PagedBatch::rows() const {
  std::vector<Row> all;
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::int64_t i = 0; i < sequences[s].fresh; ++i) all.push_back({static_cast<std::int64_t>(s), sequences[s].past + i});
  if (interleaved) {
    const auto age = [&](const Row& r) { return r.position - sequences[static_cast<std::size_t>(r.slot)].past; };
    std::ranges::stable_sort(all, [&](const Row& a, const Row& b) { return age(a) < age(b); });
  }
  for (std::int64_t i = 0; i < idle_rows; ++i) all.push_back({0, -1});
  return all;
}

std::int64_t PagedBatch::longest() const {
  std::int64_t most = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) most = std::max(most, length(s));
  return most;
}
std::int64_t PagedBatch::table_width() const { return (longest() + page - 1) / page + 1; }
std::int64_t PagedBatch::pages() const {
  std::int64_t count = 3 + spare_pages;
  for (std::size_t s = 0; s < sequences.size(); ++s) count += std::max<std::int64_t>(0, page_count(*this, s) - passed_pages);
  return count;
}

std::vector<std::int64_t> PagedBatch::table() const {
  std::vector<std::int64_t> free(static_cast<std::size_t>(pages()));
  std::iota(free.begin(), free.end(), 0);
  const CounterRandom random = CounterRandom::of(name());
  for (std::size_t i = free.size(); i > 1; --i) std::swap(free[i - 1], free[random.below(i, i)]);
  const std::int64_t width = table_width();
  std::vector<std::int64_t> entries;
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::int64_t p = 0; p < width; ++p) {
      if (p >= page_count(*this, s) || p < passed_pages) {
        entries.push_back(p % 2 == 0 ? -1 : 1 << 30);
      } else if (s > 0 && p < shared_pages) {
        entries.push_back(entries[static_cast<std::size_t>(p)]);
      } else {
        entries.push_back(free.back());
        free.pop_back();
      }
    }
  return entries;
}

ValueSpec PagedBatch::table_input() const {
  return given(input(QUERN_I32, {static_cast<std::int64_t>(sequences.size()), table_width()}), "shuffled", table());
}
ValueSpec PagedBatch::slot_input() const {
  std::vector<std::int64_t> slots;
  for (const Row& r : rows()) slots.push_back(r.slot);
  return given(input(QUERN_I32, {static_cast<std::int64_t>(slots.size())}), "slots", slots);
}
ValueSpec PagedBatch::position_input() const {
  std::vector<std::int64_t> positions;
  for (const Row& r : rows()) positions.push_back(r.position);
  return given(input(QUERN_I32, {static_cast<std::int64_t>(positions.size())}), "positions", positions);
}

std::string PagedBatch::name() const {
  std::string text = "page" + std::to_string(page);
  if (sequences.size() <= most_named)
    for (const PagedSequence& s : sequences) text += "_" + std::to_string(s.past) + "+" + std::to_string(s.fresh);
  else text += "_of" + std::to_string(sequences.size()) + "_to" + std::to_string(longest());
  if (passed_pages != 0) text += "_passed" + std::to_string(passed_pages);
  if (spare_pages != 0) text += "_spare" + std::to_string(spare_pages);
  if (shared_pages != 0) text += "_shared" + std::to_string(shared_pages);
  if (idle_rows != 0) text += "_idle" + std::to_string(idle_rows);
  if (interleaved) text += "_interleaved";
  return text;
}

std::int64_t cache_slot(const PagedBatch& batch, const std::vector<std::int64_t>& table, std::int64_t sequence, std::int64_t position) {
  return table[static_cast<std::size_t>(sequence * batch.table_width() + position / batch.page)] * batch.page + position % batch.page;
}

void poison_cache_row(const Tensor& cache, std::int64_t row) {
  const std::int64_t d = cache.dim_from_end(0);
  if (const BlockFormat* format = BlockFormat::find(cache.dtype())) {
    const Unit unit = unit_of(cache.dtype());
    for (std::int64_t b = row * d / unit.elements; b < (row + 1) * d / unit.elements; ++b)
      format->set_entry(cache.bytes().data() + static_cast<std::uint64_t>(b) * unit.bytes, QUERN_ROLE_SUPER_SCALE, 0, 0x7e00);
    return;
  }
  for (std::int64_t i = row * d; i < (row + 1) * d; ++i)
    cache.set(i, i % 3 == 1 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN());
}

}  // namespace quern::conformance
