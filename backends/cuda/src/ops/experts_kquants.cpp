// See experts_kquants.hpp.
#include "experts_kquants.hpp"

#include "../kernels/experts_kquants.hpp"

#include "expert_pairs.hpp"
#include "experts.hpp"
#include "mixed.hpp"
#include "strided.hpp"

#include <algorithm>
#include <iterator>

namespace quern::cuda {
namespace {

constexpr float glu_scale = 1.0f / 64;  // gate * up may be large, and f16 ends at 65504
// Blocks of 256 along k: of the row that a block of one pair makes its operand of, which fits on each card beside one warp's weights; of any row.
constexpr std::int64_t most_made_blocks = 32, most_experts_blocks = 128;
constexpr std::int64_t static_bytes = 256;  // of shared memory, that the kernels declare

constexpr std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/// How the pairs of a run are taken.
struct Tiling {
  std::int64_t pairs, experts;
  bool listed;
  int columns;         // pairs of a tile at most
  std::int64_t tiles;  // at most

  Tiling(std::int64_t tokens, std::int64_t used, std::int64_t all) : pairs(tokens * used), experts(all), listed(pairs > few_pairs) {
    // A tile costs the decoding of its expert's weights, so few experts have two. Tiles of 64 pairs are slower than two of 32, whose operands
    // shared memory holds.
    const std::int64_t each = pairs / std::max<std::int64_t>(experts, 1);
    columns = !listed ? 1 : each <= 5 ? 8 : each <= 11 ? 16 : 32;
    tiles = listed ? most_pair_tiles(pairs, experts, columns) : pairs;
  }
  explicit Tiling(const Call& product) : Tiling(product.input(2).dims[0], product.input(2).dims[1], product.input(1).dims[0]) {}

  std::uint64_t lists() const { return listed ? round_up(pair_list_bytes(pairs, experts)) : 0; }
  std::uint64_t operands(std::int64_t k) const { return round_up(static_cast<std::uint64_t>(tiles * columns * (k / 256)) * operand_pitch); }
};

/// What is the same in each launch of a product's pairs; lists and operands lie in scratch.
ExpertTilesParams params_of(const Call& product, const Tiling& tiling, Address lists, Address operands, Launcher& launcher) {
  const ExpertRoles roles(product, false);
  ExpertTilesParams p{};
  p.of = expert_params(roles, roles.b.dims[0], lists, launcher);
  p.of.tile_pairs = tiling.columns;
  p.listed = tiling.listed ? 1 : 0;
  p.w = blocks_of(roles.b);
  p.ring = kquants_ring_bytes(p.w.dtype == Q8_0);
  p.x = operands;
  p.columns = tiling.columns;
  p.alpha = 1.0f;
  p.half = 1;
  return p;
}

/// The operands of a product's pairs, where its blocks do not make them each.
void make_operands(ExpertTilesParams& p, const Tiling& tiling, Launcher& launcher) {
  if (!tiling.listed && p.of.k <= most_made_blocks * 256) {
    p.x = 0;
    return;
  }
  p.scaled = 1;
  launcher.launch(kernels::expert_operands, {(tiling.columns + 7) / 8, tiling.tiles, 1}, 256, p);
}

const KernelId<ExpertTilesParams>& kernel_of(const ExpertTilesParams& p) {
  struct Kernels {
    int dtype;
    KernelId<ExpertTilesParams> of[3];  // of 8, 16 and 32 columns
  };
  static constexpr Kernels all[] = {
      {Q4_0, {kernels::experts_kquants_8_q4_0, kernels::experts_kquants_16_q4_0, kernels::experts_kquants_32_q4_0}},
      {Q4_1, {kernels::experts_kquants_8_q4_1, kernels::experts_kquants_16_q4_1, kernels::experts_kquants_32_q4_1}},
      {Q5_0, {kernels::experts_kquants_8_q5_0, kernels::experts_kquants_16_q5_0, kernels::experts_kquants_32_q5_0}},
      {Q5_1, {kernels::experts_kquants_8_q5_1, kernels::experts_kquants_16_q5_1, kernels::experts_kquants_32_q5_1}},
      {Q8_0, {kernels::experts_kquants_8_q8_0, kernels::experts_kquants_16_q8_0, kernels::experts_kquants_32_q8_0}},
      {Q4_K, {kernels::experts_kquants_8_q4_k, kernels::experts_kquants_16_q4_k, kernels::experts_kquants_32_q4_k}},
      {Q5_K, {kernels::experts_kquants_8_q5_k, kernels::experts_kquants_16_q5_k, kernels::experts_kquants_32_q5_k}},
      {Q6_K, {kernels::experts_kquants_8_q6_k, kernels::experts_kquants_16_q6_k, kernels::experts_kquants_32_q6_k}},
  };
  const auto* const found = std::ranges::find(all, p.w.dtype, &Kernels::dtype);
  if (found == std::end(all)) throw Failure(QUERN_INTERNAL, "products of experts have no kernel for their weights");
  return found->of[p.columns <= 8 ? 0 : p.columns == 16 ? 1 : 2];
}

/// Blocks that keep the operand of their pairs, and take some tiles of outputs each; false: shared memory does not hold it.
bool launch_resident(ExpertTilesParams& p, const Tiling& tiling, std::int64_t tiles, Launcher& launcher) {
  const std::int64_t all = launcher.gpu().facts().shared_limit - static_bytes,
                     operand = resident_bytes(p.of.k, p.columns) + mixed_barrier_bytes;
  const std::int64_t most = mixed_most_warps(p.columns);
  struct Share {
    std::int64_t blocks, warps;  // of a multiprocessor, of a block
  };
  for (const Share share : {Share{2, most / 2}, Share{1, most}, Share{1, 8}}) {
    const std::int64_t limit = share.blocks == 1 ? all : all / share.blocks - mixed_reserved;
    const std::int64_t shared = operand + share.warps * p.ring;
    if (shared > limit || (share.blocks > 1 && p.columns > 16)) continue;  // of more columns two blocks have too many registers
    // Four times as many blocks as there are seats: how many tiles of pairs there are, the card alone knows.
    const std::int64_t wanted = (4 * share.blocks * launcher.multiprocessors() + tiling.tiles - 1) / tiling.tiles;
    p.resident = 1;
    launcher.launch(kernel_of(p), {std::clamp<std::int64_t>(wanted, 1, (tiles + share.warps - 1) / share.warps), tiling.tiles, 1},
                    static_cast<unsigned>(32 * share.warps), p, static_cast<unsigned>(shared));
    return true;
  }
  return false;
}

/// Shares the outputs of tiles of pairs among blocks and warps, and launches.
void launch_tiles(ExpertTilesParams& p, const Tiling& tiling, Launcher& launcher) {
  const std::int64_t blocks = p.of.k / 256, outputs = p.glu != 0 ? 8 : 16, tiles = (p.of.n + outputs - 1) / outputs;
  if (tiling.listed && launch_resident(p, tiling, tiles, launcher)) return;
  const int columns = std::max(p.columns, 8);
  const bool halves = columns < 32;  // two blocks a multiprocessor
  const std::int64_t warps = halves ? mixed_most_warps(columns) / 2 : mixed_most_warps(columns),
                     seats = std::int64_t{launcher.multiprocessors()} * (halves ? 2 : 1);
  // Where there is less work than seats, warps share a tile along k. Else a warp has a tile, and blocks even shares.
  const std::int64_t each = (tiles * tiling.tiles + seats - 1) / seats, turns = (tiles + warps - 1) / warps;
  const std::int64_t wanted = each < warps ? std::min(each, tiles) : (tiles + turns - 1) / turns;
  const std::int64_t limit = kquants_shared_limit(launcher, halves) - static_bytes;
  unsigned shared = 0;
  for (std::int64_t most = warps; most > 0; --most) {
    p.tiles = static_cast<int>(std::min(wanted, most));
    shared = share_kquants_block(p, blocks, most, limit, 0, p.x == 0 ? blocks : mixed_span);
    if (p.x != 0 || std::int64_t{p.span} * p.ways >= blocks) break;  // a block that makes its operand has all of it in one chunk
  }
  launcher.launch(kernel_of(p), {(tiles + p.tiles - 1) / p.tiles, tiling.tiles, 1}, static_cast<unsigned>(32 * p.tiles * p.ways), p,
                  shared);
}

struct LayerPlaces {
  std::uint64_t x, h, y, end;  // operands of gate and up, and of down; products of down

  LayerPlaces(const Call& gate, const Call& down, const Tiling& tiling)
      : x(tiling.lists()),
        h(x + tiling.operands(gate.input(0).last())),
        y(h + tiling.operands(down.input(0).last())),
        end(y + round_up(static_cast<std::uint64_t>(tiling.pairs * down.output(0).last()) * 4)) {}
};

}  // namespace

const char* why_no_experts_kquants(const Call& product) {
  const Tensor &a = product.input(0), &b = product.input(1);
  if (product.invariant) return "it asks for invariant results";
  if (!product.f16_allowed()) return "its numerics allow no 16-bit activations";
  if (!is_half_format(b)) return "no kernel for the matrix units reads its weights in their own format and layout";
  if (a.last() % 256 != 0 || a.last() > most_experts_blocks * 256) return "its weights have longer rows than the kernel takes";
  if (Tiling(product).tiles > 65535) return "it may have more tiles of pairs than a grid";
  return nullptr;
}

std::uint64_t experts_kquants_scratch(const Call& product) {
  const Tiling tiling(product);
  return tiling.lists() + tiling.operands(product.input(0).last());
}

void launch_experts_kquants(const Call& product, Launcher& launcher) {
  const Tiling tiling(product);
  ExpertTilesParams p = params_of(product, tiling, product.scratch, product.scratch + tiling.lists(), launcher);
  if (tiling.listed) {
    launcher.launch(kernels::clear_pairs, {tiling.pairs, 1, 1}, 256, p.of);
    make_pair_lists(p.of, launcher);
  }
  make_operands(p, tiling, launcher);
  launch_tiles(p, tiling, launcher);
}

std::uint64_t expert_layer_scratch(const Call& gate, const Call& down) { return LayerPlaces(gate, down, Tiling(gate)).end; }

void launch_expert_layer(const ExpertLayer& layer, Address scratch, Launcher& launcher) {
  const Tiling tiling(layer.gate);
  if (tiling.pairs == 0) {  // no experts: the residual alone
    return launch_expert_sum(layer.down, layer.weight, layer.residual, layer.y, launcher);
  }
  const LayerPlaces places(layer.gate, layer.down, tiling);
  ExpertTilesParams first = params_of(layer.gate, tiling, scratch, scratch + places.x, launcher);
  if (tiling.listed) make_pair_lists(first.of, launcher);
  make_operands(first, tiling, launcher);
  first.w2 = blocks_of(layer.up);
  first.glu = 1;
  first.glu_y = scratch + places.h;
  first.glu_scale = glu_scale;
  first.activation = layer.activation;
  launch_tiles(first, tiling, launcher);

  ExpertTilesParams second = params_of(layer.down, tiling, scratch, scratch + places.h, launcher);
  second.alpha = 1.0f / glu_scale;
  Tensor products = layer.down.output(0);
  products.data = scratch + places.y;
  products.dtype = QUERN_F32;
  products.strides[2] = 4;
  products.strides[1] = products.dims[2] * 4;
  products.strides[0] = products.dims[1] * products.strides[1];
  second.of.y = with_two_strides(products);
  const ExpertSum sum{products.data, rows_of(layer.weight), layer.residual, layer.y};
  if (!tiling.listed) second.counters = layer.counters, second.sum = sum;
  launch_tiles(second, tiling, launcher);
  if (tiling.listed)
    launcher.launch(kernels::expert_sums, launcher.spread(second.of.tokens * second.of.n / 4), 256, ExpertSumParams{second.of, sum});
}

}  // namespace quern::cuda
