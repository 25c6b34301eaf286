// See mixed.hpp.
#include "mixed.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

constexpr int most_warps = 12;
constexpr std::int64_t target_span = 2;  // blocks of 256 that a warp takes between two barriers

}  // namespace

bool mixed_serves(const Tensor& weights, const CardFacts& card) {
  if (card.major < 8 || weights.rank != 2 || weights.last() % 256 != 0) return false;
  if (weights.dtype == QUERN_Q4_K) return weights.planes || weights.contiguous();
  return weights.dtype == QUERN_Q6_K && weights.planes;
}

void launch_mixed(MixedParams& p, Launcher& launcher) {
  if (p.t == 0) return;
  const int columns = p.t <= 8 ? 8 : p.t <= 16 ? 16 : 32, blocks = p.k / 256;
  std::int64_t tiles = 0;
  for (int i = 0; i < p.parts; ++i) tiles += (p.part[i].rows + 15) / 16;  // under glu: half of its rows twice, in all as many
  if (p.glu != 0) tiles = (p.part[0].rows + 7) / 8;
  const std::int64_t each = (tiles + launcher.multiprocessors() - 1) / launcher.multiprocessors();
  p.tiles = static_cast<int>(std::min<std::int64_t>(each, most_warps));
  // Two chunks of activations in shared memory. A tile has as many warps as there is room for, none of them with less to do than others
  // for nothing.
  const std::int64_t limit = launcher.gpu().facts().shared_limit;
  const auto shared_of = [&](std::int64_t chunk) {
    const std::int64_t pitch = chunk * 512 + 16, means = (chunk * 64 + 63) / 128 * 128 + 64;
    return 2 * columns * (pitch + means);
  };
  std::int64_t room = 1;
  while (shared_of(room + 1) <= limit) ++room;
  std::int64_t ways = std::clamp<std::int64_t>(most_warps / p.tiles, 1, std::min<std::int64_t>(room, blocks));
  const std::int64_t rounds = (blocks + ways - 1) / ways;
  ways = (blocks + rounds - 1) / rounds;
  const std::int64_t span = std::min({target_span, room / ways, rounds});
  p.ways = static_cast<int>(ways);
  p.span = static_cast<int>(span);
  p.pitch = static_cast<int>(ways * span * 512 + 16);
  p.means_pitch = static_cast<int>((ways * span * 64 + 63) / 128 * 128 + 64);
  const auto sums = static_cast<std::int64_t>(p.tiles) * (ways - 1) * columns * 64;  // of a warp: 16 rows of f32
  const auto shared = static_cast<unsigned>(std::max(shared_of(ways * span), sums));
  launcher.launch("mixed", columns == 8 ? "mixed_8" : columns == 16 ? "mixed_16" : "mixed_32", {(tiles + p.tiles - 1) / p.tiles, 1, 1},
                  static_cast<unsigned>(32 * p.tiles * p.ways), p, shared);
}

}  // namespace quern::cuda
