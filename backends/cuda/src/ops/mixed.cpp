// See mixed.hpp.
#include "mixed.hpp"

#include <algorithm>
#include <span>

namespace quern::cuda {
namespace {

/// Of a multiprocessor.
constexpr std::int64_t most_warps(int columns) { return mixed_most_warps(columns); }
/// The place of a kernel's name: of 8, 16, 32 or 64 columns.
constexpr int place_of(int columns) { return columns <= 8 ? 0 : columns <= 16 ? 1 : columns <= 32 ? 2 : 3; }
constexpr std::int64_t target_chunk = 40 << 10;  // bytes of activations: a block begins when it has the first
constexpr std::int64_t extra = mixed_barrier_bytes;
constexpr std::int64_t most_cluster = 8;  // blocks that run together on any card
constexpr std::int64_t most_k = 32768;    // one row lies in shared memory

/// The kernels for weights of a set of formats: those of kquants_rows.cuh of 8, 16, 32 and 64 columns, and that of warpgroup_rows.cuh.
/// wide: their codes have eight bits.
struct KquantsSet {
  quern_dtype formats[2];
  bool wide;
  KernelId<MixedParams> of[4], warpgroups;
  bool has(int dtype) const { return dtype == static_cast<int>(formats[0]) || dtype == static_cast<int>(formats[1]); }
};
constexpr KquantsSet kquants_sets[] = {
    {{QUERN_Q4_K, QUERN_Q6_K},
     false,
     {kernels::kquants_8_q4_k, kernels::kquants_16_q4_k, kernels::kquants_32_q4_k, kernels::kquants_64_q4_k},
     kernels::warpgroup_64_q4_k},
    {{QUERN_Q5_K, QUERN_Q6_K},
     false,
     {kernels::kquants_8_q5_k, kernels::kquants_16_q5_k, kernels::kquants_32_q5_k, kernels::kquants_64_q5_k},
     kernels::warpgroup_64_q5_k},
    {{QUERN_Q4_0, QUERN_Q4_0},
     false,
     {kernels::kquants_8_q4_0, kernels::kquants_16_q4_0, kernels::kquants_32_q4_0, kernels::kquants_64_q4_0},
     kernels::warpgroup_64_q4_0},
    {{QUERN_Q4_1, QUERN_Q4_1},
     false,
     {kernels::kquants_8_q4_1, kernels::kquants_16_q4_1, kernels::kquants_32_q4_1, kernels::kquants_64_q4_1},
     kernels::warpgroup_64_q4_1},
    {{QUERN_Q5_0, QUERN_Q5_0},
     false,
     {kernels::kquants_8_q5_0, kernels::kquants_16_q5_0, kernels::kquants_32_q5_0, kernels::kquants_64_q5_0},
     kernels::warpgroup_64_q5_0},
    {{QUERN_Q5_1, QUERN_Q5_1},
     false,
     {kernels::kquants_8_q5_1, kernels::kquants_16_q5_1, kernels::kquants_32_q5_1, kernels::kquants_64_q5_1},
     kernels::warpgroup_64_q5_1},
    {{QUERN_Q8_0, QUERN_Q8_0},
     true,
     {kernels::kquants_8_q8_0, kernels::kquants_16_q8_0, kernels::kquants_32_q8_0, kernels::kquants_64_q8_0},
     kernels::warpgroup_64_q8_0},
    {{QUERN_Q4_Z32, QUERN_Q4_Z32},
     false,
     {kernels::kquants_8_q4_z32, kernels::kquants_16_q4_z32, kernels::kquants_32_q4_z32, kernels::kquants_64_q4_z32},
     kernels::warpgroup_64_q4_z32},
    {{QUERN_Q4_Z64, QUERN_Q4_Z64},
     false,
     {kernels::kquants_8_q4_z64, kernels::kquants_16_q4_z64, kernels::kquants_32_q4_z64, kernels::kquants_64_q4_z64},
     kernels::warpgroup_64_q4_z64},
    {{QUERN_Q4_Z128, QUERN_Q4_Z128},
     false,
     {kernels::kquants_8_q4_z128, kernels::kquants_16_q4_z128, kernels::kquants_32_q4_z128, kernels::kquants_64_q4_z128},
     kernels::warpgroup_64_q4_z128},
    {{QUERN_Q8_Z128, QUERN_Q8_Z128},
     true,
     {kernels::kquants_8_q8_z128, kernels::kquants_16_q8_z128, kernels::kquants_32_q8_z128, kernels::kquants_64_q8_z128},
     kernels::warpgroup_64_q8_z128},
    {{QUERN_Q8_128, QUERN_Q8_128},
     true,
     {kernels::kquants_8_q8_128, kernels::kquants_16_q8_128, kernels::kquants_32_q8_128, kernels::kquants_64_q8_128},
     kernels::warpgroup_64_q8_128},
    {{QUERN_F8_128, QUERN_F8_128},
     true,
     {kernels::kquants_8_f8_128, kernels::kquants_16_f8_128, kernels::kquants_32_f8_128, kernels::kquants_64_f8_128},
     kernels::warpgroup_64_f8_128},
    {{QUERN_NF4_64, QUERN_NF4_64},
     false,
     {kernels::kquants_8_nf4_64, kernels::kquants_16_nf4_64, kernels::kquants_32_nf4_64, kernels::kquants_64_nf4_64},
     kernels::warpgroup_64_nf4_64},
    {{QUERN_FP4_64, QUERN_FP4_64},
     false,
     {kernels::kquants_8_fp4_64, kernels::kquants_16_fp4_64, kernels::kquants_32_fp4_64, kernels::kquants_64_fp4_64},
     kernels::warpgroup_64_fp4_64},
};
/// The set that has the formats of all parts, if there is one.
const KquantsSet* set_of(std::span<const MixedPart> parts) {
  const auto* const found = std::ranges::find_if(kquants_sets, [&](const KquantsSet& set) {
    return std::ranges::all_of(parts, [&](const MixedPart& part) { return set.has(part.w.dtype); });
  });
  return found == std::end(kquants_sets) ? nullptr : found;
}
bool of_one_float(std::span<const MixedPart> parts) {
  return !is_block(static_cast<quern_dtype>(parts[0].w.dtype)) &&
         std::ranges::all_of(parts, [&](const MixedPart& part) { return part.w.dtype == parts[0].w.dtype; });
}

/// Weights of blocks, of 2 rows and more (of the head one).
void launch_kquants(MixedParams& p, const KquantsSet& set, Launcher& launcher) {
  const int columns = std::max(p.columns, 8);
  const std::int64_t blocks = p.k / 256;
  std::int64_t tiles = 0;
  for (int i = 0; i < p.parts; ++i) tiles += (p.part[i].rows + 15) / 16;
  if (p.glu != 0) tiles = (p.part[0].rows + 7) / 8;
  // Two blocks a multiprocessor, so that the next kernel's weights come while this one ends; but one of 32 rows, whose chunks of the
  // operand are large. As many tiles a block as one wave needs; of more than there are warps, an even share.
  const bool halves = columns < 32;
  const std::int64_t warps = kquants_most_warps(columns), seats = std::int64_t{launcher.multiprocessors()} * (halves ? 2 : 1);
  const std::int64_t each = (tiles + seats - 1) / seats, turns = (each + warps - 1) / warps;
  p.tiles = static_cast<int>((each + turns - 1) / turns);
  const std::int64_t limit = kquants_shared_limit(launcher, halves);
  p.ring = kquants_ring_bytes(set.wide);
  // The tail: of a residual what a warp adds when it stores its first eight columns of a tile.
  const std::int64_t tail = p.residual != 0 ? std::min(std::int64_t{p.tiles} * columns / 8, warps) * kquants_tail_bytes : 0;
  const unsigned shared = share_kquants_block(p, blocks, warps, limit, tail, mixed_span);
  const std::int64_t one_wave = std::min(seats, tiles), grid = p.tiles * one_wave >= tiles ? one_wave : (tiles + p.tiles - 1) / p.tiles;
  launcher.launch(set.of[place_of(columns)], {grid, 1, 1}, static_cast<unsigned>(32 * p.tiles * p.ways), p, shared);
}

/// How many blocks of a kernel of warpgroup_rows.cuh share k, so that all of `tiles` tiles with `blocks` blocks of 256 in k end soonest.
std::int64_t ways_of_warpgroups(const KernelId<MixedParams>& kernel, std::int64_t tiles, std::int64_t blocks, unsigned shared,
                                Launcher& launcher) {
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t ways = 1; ways <= std::min(most_cluster, blocks); ++ways) {
    const std::int64_t seats = ways == 1 ? std::int64_t{launcher.multiprocessors()}
                                         : launcher.clusters_at_once(kernel, warpgroup_threads, shared, static_cast<unsigned>(ways));
    if (seats == 0) continue;
    // A block starts and ends in about the time that three blocks of 256 take.
    const std::int64_t waves = (tiles + seats - 1) / seats, cost = waves * ((blocks + ways - 1) / ways + 3);
    if (cost >= least) continue;
    least = cost;
    best = ways;
  }
  return best;
}

/// Shared memory of a block of warpgroup_rows.cuh.
int shared_of_warpgroups(const KquantsSet& set) {
  return warpgroup_barrier_bytes + 1024 + warpgroup_stages(set.wide) * warpgroup_stage_bytes + 16 * kquants_ring_bytes(set.wide);
}
/// The same of more than 32 rows, where the card has products of warpgroups.
void launch_warpgroups(MixedParams& p, const KquantsSet& set, Launcher& launcher) {
  std::int64_t units = 0;  // of 64 rows of weights, of one part each
  for (int i = 0; i < p.parts; ++i) units += (p.part[i].rows + 63) / 64;
  if (p.glu != 0) units = (p.part[0].rows + 31) / 32;
  p.ring = kquants_ring_bytes(set.wide);
  p.span = warpgroup_stages(set.wide);
  const auto shared = static_cast<unsigned>(shared_of_warpgroups(set));
  const std::int64_t tiles = (units + 3) / 4, ways = ways_of_warpgroups(set.warpgroups, tiles, p.k / 256, shared, launcher);
  p.ways = static_cast<int>(ways);
  launcher.launch(set.warpgroups, {tiles * ways, 1, 1}, warpgroup_threads, p, shared, static_cast<unsigned>(ways));
}

/// Weights of f16 or bf16.
void launch_floats(MixedParams& p, Launcher& launcher) {
  const int columns = std::max(p.columns, 8), blocks = p.k / 256;
  std::int64_t tiles = 0;
  for (int i = 0; i < p.parts; ++i) tiles += (p.part[i].rows + 15) / 16;
  if (p.glu != 0) tiles = (p.part[0].rows + 7) / 8;
  // One block a multiprocessor (f16, one row, one H200: 238 tokens/s, by two 232). As many tiles a block as one wave needs; of more than
  // there are warps, an even share.
  const std::int64_t seats = launcher.multiprocessors(), each = (tiles + seats - 1) / seats;
  const std::int64_t warps = most_warps(columns), turns = (each + warps - 1) / warps;
  p.tiles = static_cast<int>((each + turns - 1) / turns);
  // Two chunks of activations in shared memory, or one row as a whole. A tile has as many warps as there is room for, if each has less to
  // do by them.
  const std::int64_t limit = launcher.gpu().facts().shared_limit - extra;
  const auto shared_of = [&](std::int64_t chunk) { return (p.columns > 1 ? 2 : 1) * chunk * p.columns * operand_pitch; };
  std::int64_t room = 1;
  while (room < blocks && shared_of(room + 1) <= limit) ++room;
  std::int64_t ways = std::clamp<std::int64_t>(warps / p.tiles, 1, room);
  const std::int64_t rounds = (blocks + ways - 1) / ways;
  ways = (blocks + rounds - 1) / rounds;
  const std::int64_t fits = std::max<std::int64_t>(1, target_chunk / (ways * p.columns * operand_pitch));
  const std::int64_t span = p.columns > 1 ? std::min({mixed_span, fits, room / ways, rounds}) : rounds;
  p.ways = static_cast<int>(ways);
  p.span = static_cast<int>(span);
  const auto sums = static_cast<std::int64_t>(p.tiles) * (ways - 1) * columns * 64;  // of a warp: 16 rows of f32
  const auto shared = static_cast<unsigned>(std::max(shared_of(ways * span) + extra, sums));
  static constexpr KernelId<MixedParams> names[] = {kernels::mixed_8, kernels::mixed_16, kernels::mixed_32, kernels::mixed_64};
  launcher.launch(names[place_of(columns)], {(tiles + p.tiles - 1) / p.tiles, 1, 1}, static_cast<unsigned>(32 * p.tiles * p.ways), p,
                  shared);
}

}  // namespace

bool mixed_serves(const Tensor& weights, const CardFacts& card) {
  if (!card.has_bulk_copies() || weights.rank != 2 || weights.last() % 256 != 0 || weights.last() > most_k) return false;
  if (weights.dtype == QUERN_F16 || weights.dtype == QUERN_BF16) return weights.packed_layout || is_contiguous(weights);
  return is_half_format(weights) || is_group_format(weights);
}

namespace {

/// Rows `first` to `first + count` of the activations and of all that goes with them; `first` is a multiple of operand_rows.
MixedParams rows_of(const MixedParams& p, std::int64_t first, std::int64_t count) {
  MixedParams some = p;
  some.t = static_cast<int>(count);
  some.x += static_cast<Address>(operand_bytes(first, p.k));
  for (MixedPart& part : some.part) part.y += static_cast<Address>(first * part.row) * 4;
  const Address of_sums = static_cast<Address>(first * p.part[0].row) * 4;
  if (p.residual != 0) some.residual += of_sums;
  if (p.residual2 != 0) some.residual2 += of_sums;
  if (p.glu != 0) some.glu_y += static_cast<Address>(operand_bytes(first, p.part[0].rows));
  return some;
}

/// Products whose weights have a kernel in common: of a set, or of floats where there is none.
void launch_parts(const MixedParams& all, const KquantsSet* set, Launcher& launcher) {
  const bool warpgroups = set != nullptr && all.t > 32 && launcher.card().has_warpgroup_products() &&
                          shared_of_warpgroups(*set) <= launcher.card().shared_limit;
  for (std::int64_t first = 0; first < all.t; first += operand_rows) {
    MixedParams p = rows_of(all, first, std::min<std::int64_t>(operand_rows, all.t - first));
    if (warpgroups) launch_warpgroups(p, *set, launcher);
    else if (set != nullptr) launch_kquants(p, *set, launcher);
    else launch_floats(p, launcher);
  }
}

}  // namespace

void launch_mixed(const MixedParams& p, Launcher& launcher) {
  const std::span<const MixedPart> all(p.part, static_cast<std::size_t>(p.parts));
  for (std::size_t first = 0, count = 0; first < all.size(); first += count) {  // a launch for neighbours that have a kernel in common
    const auto in_common = [&](std::size_t n) { return set_of(all.subspan(first, n)) != nullptr || of_one_float(all.subspan(first, n)); };
    for (count = 1; first + count < all.size() && in_common(count + 1);) ++count;
    MixedParams some = p;
    std::ranges::copy(all.subspan(first, count), some.part);
    some.parts = static_cast<int>(count);
    const KquantsSet* set = set_of(all.subspan(first, count));
    if (set == nullptr && !of_one_float(all.subspan(first, count)))
      throw Failure(QUERN_INTERNAL, "products of few rows have no kernel for their weights");
    launch_parts(some, set, launcher);
  }
}

}  // namespace quern::cuda
