// Positions of an index tensor, grouped by the index that stands there: a counting sort that keeps their order.
#pragma once

#include "../view.hpp"

#include <algorithm>

namespace quern::cpu {

/// Positions of group g are order[starts[g] .. starts[g + 1]), ascending.
struct RowGroups {
  std::int64_t* order;
  std::int64_t* starts;
  std::int64_t* chosen;  // the groups that have any, ascending
  std::int64_t chosen_count;

  std::int64_t first(std::int64_t group) const noexcept { return starts[group]; }
  std::int64_t count(std::int64_t group) const noexcept { return starts[group + 1] - starts[group]; }
};

/// Bytes of memory that group_rows needs, a multiple of 64.
inline std::int64_t row_groups_bytes(std::int64_t positions, std::int64_t groups) noexcept {
  return (positions + 2 * groups + 1 + 7) / 8 * 64;
}

/// Groups positions [0, element count of index) that live(position) lets through. Calls stray(value) for each index that is no group.
template <typename Live, typename Stray>
RowGroups group_rows(const Tensor& index, std::int64_t groups, std::byte* memory, const Live& live, const Stray& stray) noexcept {
  const std::int64_t positions = index.elements();
  RowGroups g{};
  g.order = reinterpret_cast<std::int64_t*>(memory);
  g.starts = g.order + positions;
  g.chosen = g.starts + groups + 1;
  std::fill_n(g.starts, groups + 1, 0);
  for (std::int64_t at = 0; at < positions; ++at) {
    if (!live(at)) continue;
    const std::int64_t group = load_integer(index, at);
    if (group >= 0 && group < groups) ++g.starts[group + 1];
    else stray(group);
  }
  for (std::int64_t e = 0; e < groups; ++e) g.starts[e + 1] += g.starts[e];
  std::int64_t* next = g.chosen;  // where the next position of a group goes, until the list is made
  std::copy_n(g.starts, groups, next);
  for (std::int64_t at = 0; at < positions; ++at)
    if (const std::int64_t group = load_integer(index, at); group >= 0 && group < groups && live(at)) g.order[next[group]++] = at;
  for (std::int64_t e = 0; e < groups; ++e)
    if (g.starts[e + 1] > g.starts[e]) g.chosen[g.chosen_count++] = e;
  return g;
}

}  // namespace quern::cpu
