// See mixed.hpp.
#include "mixed.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

constexpr int most_warps = 12;
constexpr std::int64_t most_k = 32768;  // one row lies in shared memory
constexpr std::int64_t target_span = 2;  // blocks of 256 that a warp takes between two barriers

}  // namespace

bool mixed_serves(const Tensor& weights, const CardFacts& card) {
  if (card.major < 8 || weights.rank != 2 || weights.last() % 256 != 0 || weights.last() > most_k) return false;
  if (weights.dtype == QUERN_Q4_K || weights.dtype == QUERN_F16 || weights.dtype == QUERN_BF16) return weights.planes || weights.contiguous();
  return weights.dtype == QUERN_Q6_K && weights.planes;
}

void launch_mixed(MixedParams& p, Launcher& launcher) {
  if (p.t == 0) return;
  const bool floats = p.part[0].w.dtype == QUERN_F16 || p.part[0].w.dtype == QUERN_BF16;
  const int columns = p.t <= 8 ? 8 : p.t <= 16 ? 16 : 32, blocks = p.k / 256;
  p.columns = p.t == 1 ? 1 : columns;
  std::int64_t tiles = 0;
  for (int i = 0; i < p.parts; ++i) tiles += (p.part[i].rows + 15) / 16;
  if (p.glu != 0) tiles = (p.part[0].rows + 7) / 8;
  // As many tiles a block as one wave needs; of more than there are warps, an even share.
  const std::int64_t each = (tiles + launcher.multiprocessors() - 1) / launcher.multiprocessors(), turns = (each + most_warps - 1) / most_warps;
  p.tiles = static_cast<int>((each + turns - 1) / turns);
  // Two chunks of activations in shared memory, or one row as a whole. A tile has as many warps as there is room for, if each has less to
  // do by them.
  const std::int64_t limit = launcher.gpu().facts().shared_limit - 64;  // a row's sums of squares
  const auto pitch_of = [&](std::int64_t chunk) { return chunk * 512 + (floats ? 64 : 16); };
  const auto means_of = [&](std::int64_t chunk) { return floats ? 0 : (chunk * 64 + 63) / 128 * 128 + 64; };
  const auto shared_of = [&](std::int64_t chunk) { return (p.columns > 1 ? 2 : 1) * p.columns * (pitch_of(chunk) + means_of(chunk)); };
  std::int64_t room = 1;
  while (room < blocks && shared_of(room + 1) <= limit) ++room;
  std::int64_t ways = std::clamp<std::int64_t>(most_warps / p.tiles, 1, room);
  const std::int64_t rounds = (blocks + ways - 1) / ways;
  ways = (blocks + rounds - 1) / rounds;
  const std::int64_t span = p.columns > 1 ? std::min({target_span, room / ways, rounds}) : rounds;
  p.ways = static_cast<int>(ways);
  p.span = static_cast<int>(span);
  p.pitch = static_cast<int>(pitch_of(ways * span));
  p.means_pitch = static_cast<int>(means_of(ways * span));
  const auto sums = static_cast<std::int64_t>(p.tiles) * (ways - 1) * columns * 64;  // of a warp: 16 rows of f32
  const auto shared = static_cast<unsigned>(std::max(shared_of(ways * span) + 64, sums));
  static constexpr const char* names[2][3] = {{"mixed_8", "mixed_16", "mixed_32"}, {"mixed_floats_8", "mixed_floats_16", "mixed_floats_32"}};
  launcher.launch("mixed", names[floats][columns / 16], {(tiles + p.tiles - 1) / p.tiles, 1, 1},
                  static_cast<unsigned>(32 * p.tiles * p.ways), p, shared);
}

}  // namespace quern::cuda
