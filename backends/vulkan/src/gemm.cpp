// See gemm.hpp.
#include "gemm.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t few_rows = 32;     // the most that gemm_few.comp takes
constexpr std::uint32_t few_columns = 32;  // of its workgroups
constexpr std::uint64_t most_halves = 256 << 20;

/// A workgroup's share of y, and a subgroup's of that.
struct Tile {
  std::int32_t m, n, part_m, part_n;
};
constexpr Tile small = {32, 32, 16, 16}, middle = {64, 64, 32, 32}, narrow = {128, 64, 64, 32}, wide = {128, 128, 64, 64};

std::int64_t tiles(const Tile& tile, std::int64_t m, std::int64_t n) { return ((m + tile.m - 1) / tile.m) * ((n + tile.n - 1) / tile.n); }
std::uint32_t shared_bytes(const Tile& tile) { return static_cast<std::uint32_t>((tile.m + tile.n) * 9 * 16 + tile.n * 4 + 4); }

Tile choose(const CardFacts& card, std::int64_t m, std::int64_t n) {
  if (card.software()) return small;
  if (m <= 64) return middle;
  const std::int64_t at_once = std::int64_t{card.multiprocessors != 0 ? card.multiprocessors : 32} * 2;
  return tiles(wide, m, n) >= at_once && shared_bytes(wide) <= card.shared_limit ? wide : narrow;
}

/// Subgroups of gemm_few.comp: as many as the device has the shared memory for; 0: it does not run here.
std::uint32_t few_subgroups(const CardFacts& card) {
  if (card.layout.places == 0) return 0;
  for (const std::uint32_t subgroups : {8u, 4u})
    if (subgroups * (few_rows * 9 * 16 + 2 * few_columns * 4) + 4 <= card.shared_limit && subgroups * card.subgroup <= card.group_limit)
      return subgroups;
  return 0;
}
bool is_few(const CardFacts& card, std::uint32_t rows) { return rows <= few_rows && few_subgroups(card) != 0; }

}  // namespace

/// Rows of whole matrices: what lies behind the last row is multiplied too, and not written.
/// And room for the sums of eights.
std::uint64_t f16_scales_offset(std::uint64_t rows, std::uint64_t k) noexcept { return (rows + 15) / 16 * 16 * (k * 2 + k / 8); }
std::uint64_t f16_rows_bytes(std::uint64_t rows, std::uint64_t k) noexcept { return f16_scales_offset(rows, k) + rows * 4; }

std::int64_t least_f16_rows(const CardFacts& card) noexcept { return few_subgroups(card) != 0 ? 9 : 17; }

bool takes_eights(const CardFacts& card, quern_dtype format) noexcept {
  constexpr std::int64_t sums = 8 * most_eights_rows * 20 * 4;  // of 8 subgroups, 16 outputs and 4 between rows
  return card.layout.by_fours && card.shared_limit >= sums && (format == QUERN_Q4_K || format == QUERN_Q5_K || format == QUERN_Q6_K);
}

void launch_rows_f16(RowsF16Params p, std::int32_t mode, RowsAs as, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const bool few = as != RowsAs::eights && is_few(card, p.rows);
  p.places = few ? card.layout.places : 0;
  // Few rows are the work of few workgroups, which then have as many threads as the row has use for.
  const std::uint32_t most = card.software() ? 32
                             : p.rows > 64   ? 256
                                             : std::clamp((p.k / 8 + 31) / 32 * 32, 256u, 1024u),
                      threads = std::min(most, card.group_limit & ~31u);
  launcher.launch("rows_f16", threads, launcher.rows(p.rows), p,
                  {mode, static_cast<std::int32_t>((p.k + threads * 8 - 1) / (threads * 8)), as == RowsAs::plain ? 0 : 1,
                   few ? static_cast<std::int32_t>(card.matrices.k) : 0, few ? static_cast<std::int32_t>(card.matrices.n) : 0,
                   as == RowsAs::eights ? 1 : 0});
}

std::uint64_t halves_bytes(std::int64_t n, std::int64_t k) noexcept {
  return static_cast<std::uint64_t>(n) * (static_cast<std::uint64_t>(k) * 2 + 4);
}

bool makes_halves(const CardFacts& card, std::int64_t m, std::int64_t n, std::int64_t k) noexcept {
  return m >= (card.software() ? 48 : 512) && halves_bytes(n, k) <= most_halves;
}

void launch_gemm_rows(const GemmParams& p, quern_dtype format, Launcher& launcher) {
  // Fewer subgroups, with more blocks each, where there are workgroups enough: an H200, 32 rows by 11,008 x 4,096 weights, 21.7 us with 4, 23.8 with 8.
  // Of more than 32 rows a lane's sums fill registers, so that fewer subgroups are at work at once anyway.
  const std::int64_t multiprocessors = launcher.facts().multiprocessors != 0 ? launcher.facts().multiprocessors : 32,
                     at_once = multiprocessors * (p.m > 32 ? 1 : 4);
  const std::int32_t eights = static_cast<std::int32_t>((p.m + 7) / 8), tiles = 1, subgroups = p.m > 16 && p.n / 16 >= at_once ? 4 : 8;
  launcher.launch("gemm_rows", 32 * static_cast<std::uint32_t>(subgroups), {(p.n + 16 * tiles - 1) / (16 * tiles), 1, 1}, p,
                  {static_cast<std::int32_t>(format), eights < 3 ? eights : (eights + 1) / 2 * 2, tiles, subgroups});
}

void launch_gemm_tiles(const GemmParams& p, quern_dtype format, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const auto shape = card.matrices;
  const Tile tile = choose(card, p.m, p.n);
  const std::uint32_t subgroups = static_cast<std::uint32_t>((tile.m / tile.part_m) * (tile.n / tile.part_n));
  launcher.launch("gemm", subgroups * card.subgroup, {(p.m + tile.m - 1) / tile.m, (p.n + tile.n - 1) / tile.n, 1}, p,
                  {static_cast<std::int32_t>(format) + (p.halves != 0 ? 256 : 0), tile.m, tile.n, tile.part_m, tile.part_n,
                   static_cast<std::int32_t>(shape.m), static_cast<std::int32_t>(shape.n), static_cast<std::int32_t>(shape.k)});
}

void launch_gemm(const GemmParams& p, quern_dtype format, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  if (p.halves != 0) {
    launcher.launch("weights_f16", 32, launcher.rows(p.n), p, {static_cast<std::int32_t>(format)});
    launcher.barrier();
  }
  const auto shape = card.matrices;
  if (is_few(card, p.m)) {
    GemmParams few = p;
    few.places = card.layout.places;
    const std::uint32_t subgroups = few_subgroups(card);
    launcher.launch("gemm_few", subgroups * card.subgroup, {(p.n + few_columns - 1) / few_columns, 1, 1}, few,
                    {static_cast<std::int32_t>(format), static_cast<std::int32_t>((p.m + shape.n - 1) / shape.n),
                     static_cast<std::int32_t>(shape.m), static_cast<std::int32_t>(shape.n), static_cast<std::int32_t>(shape.k),
                     card.software() ? 1 : 2, static_cast<std::int32_t>(subgroups)});
    return;
  }
  launch_gemm_tiles(p, format, launcher);
}

}  // namespace quern::vulkan
