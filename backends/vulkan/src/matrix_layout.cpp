// See matrix_layout.hpp.
#include "matrix_layout.hpp"

#include <algorithm>
#include <bit>

namespace quern::vulkan {
namespace {

/// Whether matrices of 16 x 16 x 16 lie as MatrixLayout::by_fours says. `element(which, lane, part)`: of sums, a left matrix, a right one.
template <class Element>
bool lies_by_fours(std::uint32_t lanes, std::uint32_t parts, const MatrixShape& shape, const Element& element) {
  if (lanes != 32 || parts != 8 || shape.m != 16 || shape.n != 16 || shape.k != 16) return false;
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    for (std::uint32_t c = 0; c < parts; ++c) {
      const std::uint32_t outer = lane / 4 + c / 4 * 8, left = element(1, lane, c), right = element(2, lane, c);
      if (element(0, lane, c) != outer * 16 + lane % 4 * 2 + c % 2 + c / 2 % 2 * 8) return false;
      if (left / 16 != outer || right % 16 != outer || left % 16 != right / 16 || left % 16 != element(1, lane % 4, c % 4) % 16)
        return false;
    }
  return true;
}

}  // namespace

MatrixLayout read_matrix_layout(const std::vector<std::uint32_t>& table, std::uint32_t lanes, std::uint32_t most,
                                const MatrixShape& shape) {
  const std::uint32_t step = 1 + 3 * most, parts = table[0];
  if (parts == 0 || parts > std::min(most, most_parts) || parts * lanes != shape.m * shape.n) return {};
  const auto element = [&](std::uint32_t lane, std::uint32_t part) { return table[lane * step + 1 + part]; };
  const auto row = [&](std::uint32_t lane, std::uint32_t part) { return element(lane, part) / shape.n; };
  MatrixLayout layout;
  std::uint32_t of[most_parts] = {};
  for (std::uint32_t c = 0; c < parts; ++c) {
    std::uint32_t first = 0;
    while (row(0, first) != row(0, c)) ++first;
    of[c] = first == c ? layout.rows++ : of[first];
    layout.rows_of_parts |= of[c] << 4 * c;
  }
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    if (table[lane * step] != parts) return {};
    for (std::uint32_t a = 0; a < parts; ++a)
      for (std::uint32_t b = 0; b < a; ++b)
        if ((row(lane, a) == row(lane, b)) != (of[a] == of[b])) return {};
  }
  for (std::uint32_t bit = 1; bit < lanes; bit *= 2) {
    bool same = true;
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
      for (std::uint32_t c = 0; c < parts; ++c) same = same && row(lane, c) == row(lane ^ bit, c);
    if (same) layout.lanes |= bit;
  }
  // Each row is complete in those lanes: they hold as many different elements as a row has.
  if ((parts / layout.rows << std::popcount(layout.lanes)) != shape.n || parts % layout.rows != 0) return {};
  std::vector<bool> seen(shape.m * shape.n, false);
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    for (std::uint32_t c = 0; c < parts; ++c) {
      const std::uint32_t e = element(lane, c);
      if (e >= seen.size() || seen[e]) return {};
      seen[e] = true;
    }
  layout.left_like_sums = shape.n == shape.k;
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    for (std::uint32_t c = 0; c < parts; ++c)
      layout.left_like_sums = layout.left_like_sums && table[lane * step + 1 + most + c] == element(lane, c);
  layout.by_fours = lies_by_fours(lanes, parts, shape, [&](std::uint32_t which, std::uint32_t lane, std::uint32_t part) {
    return table[lane * step + 1 + which * most + part];
  });
  return layout;
}

std::vector<std::uint32_t> read_places(const std::vector<std::uint32_t>& table, std::uint32_t lanes, std::uint32_t most,
                                       const MatrixShape& shape) {
  const std::uint32_t step = 1 + 3 * most;
  if (most * lanes != shape.k * shape.n) return {};
  std::vector<std::uint32_t> places(std::size_t{shape.k} * shape.n, UINT32_MAX);
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    for (std::uint32_t c = 0; c < most; ++c) {
      const std::uint32_t element = table[lane * step + 1 + 2 * most + c];
      if (table[lane * step] != most || element >= places.size() || places[element] != UINT32_MAX) return {};
      places[element] = lane * most + c;
    }
  return places;
}

}  // namespace quern::vulkan
