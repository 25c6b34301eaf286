// Edits of what lies behind a limit: heads, rows, slots, pages and positions beyond a number that a kernel's own table or register stops at.
#include "edits.hpp"

#include <algorithm>
#include <cmath>

namespace quern::mutant {
namespace {

/// Parts at `limit` and beyond along a dimension become those of `limit` before, element by element.
void wrap_parts(const Slot& slot, std::uint32_t dim, std::int64_t limit) {
  if (slot.absent() || slot.is_block() || dim >= slot.rank() || slot.dim(dim) <= limit) return;
  std::int64_t inner = 1;
  for (std::uint32_t d = dim + 1; d < slot.rank(); ++d) inner *= slot.dim(d);
  const std::int64_t parts = slot.dim(dim);
  for (std::int64_t i = 0; i < slot.count(); ++i)
    if (i / inner % parts >= limit) slot.set(i, slot.get(i - limit * inner));
}

/// `unused` entries of a page table are larger than any page id and stay.
void wrap_numbers(const Slot& slot, double limit) {
  constexpr double unused = 1e9;
  for (std::int64_t i = 0; i < slot.count(); ++i)
    if (const double v = slot.get(i); v >= limit && v < unused) slot.set(i, std::fmod(v, limit));
}

std::int64_t length_of_sums(const NodeRun& node) { return node.attribute(QUERN_KEY_TRANSPOSE_A, 0) != 0 ? 0 : node.input(0).row(); }

}  // namespace

Edit where(Condition condition, Edit edit) {
  return [condition = std::move(condition), edit = std::move(edit)](const NodeRun& node) {
    if (condition(node)) edit(node);
  };
}

Condition group_ratio(std::vector<std::int64_t> ratios) {
  return [ratios = std::move(ratios)](const NodeRun& node) {
    const Slot q = node.input(0), k = node.input(1);
    if (q.rank() != 3 || k.rank() != 4 || k.dim(1) < 2) return false;
    return std::ranges::find(ratios, q.dim(1) / k.dim(1)) != ratios.end();
  };
}

Condition k_is(std::int64_t least, bool odd) {
  return [=](const NodeRun& node) {
    const std::int64_t k = length_of_sums(node);
    return k >= least && (!odd || k % 2 != 0);
  };
}

Condition rows_and_k(std::int64_t rows, std::int64_t k) {
  return [=](const NodeRun& node) { return node.input(0).rows() >= rows && length_of_sums(node) >= k; };
}

bool turns_blocks(const NodeRun& node) { return node.attribute(QUERN_KEY_TRANSPOSE_B, 0) != 0 && node.input(1).is_block(); }

Condition product_of(std::int64_t rows, std::int64_t n) {
  return [=](const NodeRun& node) { return node.output(0).rows() >= rows && node.output(0).row() >= n; };
}

Edit output_wraps(std::size_t output, std::uint32_t dim, std::int64_t limit) {
  return [=](const NodeRun& node) { wrap_parts(node.output(output), dim, limit); };
}

Edit input_wraps(std::size_t input, std::uint32_t dim, std::int64_t limit) {
  return [=](const NodeRun& node) { wrap_parts(node.input(input), dim, limit); };
}

Edit input_ends(std::size_t input, std::int64_t limit) {
  return [=](const NodeRun& node) {
    const Slot x = node.input(input);
    for (std::int64_t i = 0; i < x.count() && !x.is_block(); ++i)
      if (i % x.row() >= limit) x.set(i, 0.0);
  };
}

Edit input_least(std::size_t input, std::int64_t limit) {
  return [=](const NodeRun& node) {
    const Slot x = node.input(input);
    for (std::int64_t i = 0; i < x.count() && !x.is_block(); ++i)
      if (i % x.row() >= limit) x.set(i, -1e30);
  };
}

Edit numbers_wrap(std::size_t input, double limit) {
  return [=](const NodeRun& node) { wrap_numbers(node.input(input), limit); };
}

Edit output_numbers_wrap(std::size_t output, double limit) {
  return [=](const NodeRun& node) { wrap_numbers(node.output(output), limit); };
}

}  // namespace quern::mutant
