// See gemm.hpp.
#include "gemm.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t few_rows = 32;     // the most that gemm_few.comp takes
constexpr std::uint32_t few_columns = 32;  // of its workgroups

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

}  // namespace

std::uint64_t f16_scales_offset(std::uint64_t rows, std::uint64_t k) noexcept { return rows * k * 2; }
std::uint64_t f16_rows_bytes(std::uint64_t rows, std::uint64_t k) noexcept { return f16_scales_offset(rows, k) + rows * 4; }

void launch_rows_f16(const RowsF16Params& p, std::int32_t mode, bool permuted, Launcher& launcher) {
  const std::uint32_t most = launcher.facts().software() ? 32 : 256, threads = std::min(most, launcher.facts().group_limit & ~31u);
  launcher.launch("rows_f16", threads, launcher.rows(p.rows), p, {mode, static_cast<std::int32_t>((p.k + threads * 8 - 1) / (threads * 8)), permuted ? 1 : 0});
}

void launch_gemm(const GemmParams& p, quern_dtype format, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const auto shape = card.matrices;
  if (const std::int32_t rows = p.m <= 16 ? 16 : 32; p.m <= few_rows && static_cast<std::uint32_t>(4 * (32 + rows) * 9 * 16 + 2 * 4 * 32 * 4 + 4) <= card.shared_limit) {
    const std::int32_t depth = card.software() ? 1 : format == QUERN_F16 ? 2 : 4;
    launcher.launch("gemm_few", 4 * card.subgroup, {(p.n + few_columns - 1) / few_columns, 1, 1}, p,
                    {static_cast<std::int32_t>(format), rows, static_cast<std::int32_t>(shape.m), static_cast<std::int32_t>(shape.n),
                     static_cast<std::int32_t>(shape.k), depth});
    return;
  }
  const Tile tile = choose(card, p.m, p.n);
  const std::uint32_t subgroups = static_cast<std::uint32_t>((tile.m / tile.part_m) * (tile.n / tile.part_n));
  launcher.launch("gemm", subgroups * card.subgroup, {(p.m + tile.m - 1) / tile.m, (p.n + tile.n - 1) / tile.n, 1}, p,
                  {static_cast<std::int32_t>(format), tile.m, tile.n, tile.part_m, tile.part_n, static_cast<std::int32_t>(shape.m),
                   static_cast<std::int32_t>(shape.n), static_cast<std::int32_t>(shape.k)});
}

}  // namespace quern::vulkan
