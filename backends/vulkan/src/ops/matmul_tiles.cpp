// See matmul_tiles.hpp. Blocks are decoded to f32 in scratch, some outputs at a time, so that a block is decoded once however many rows there are.
#include "matmul_tiles.hpp"

#include "copy.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int64_t most_decoded = 16 << 20;  // bytes of decoded outputs, if not of the fewest
constexpr std::int64_t outputs_a_slice = 256;    // slices have a multiple of so many outputs: they begin at whole blocks
constexpr std::int64_t depth = 16;               // of k, a step of the kernel
constexpr std::int64_t least_part = 256;         // of k, which a part has at the least
constexpr std::int64_t tiles_at_once = 256;      // fewer tiles are cut into parts of k
constexpr std::int64_t part_tile = 64;           // rows and columns of a tile that is cut
constexpr std::int64_t least_large_depth = 128;  // of k, from which on a large tile's reuse is worth more than its 64 stores an invocation
constexpr std::uint64_t region_alignment = 256;

/// Invocations along each side of a tile, and what each of them has of it.
struct TileSides {
  std::int32_t side, own;
  std::int64_t size() const { return std::int64_t{side} * own; }
};
constexpr TileSides least_sides = {8, 4}, usual_sides = {16, 4}, large_sides = {16, 8};

std::int64_t ceiling(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }
std::uint64_t whole_regions(std::uint64_t bytes) { return (bytes + region_alignment - 1) / region_alignment * region_alignment; }

std::int64_t tiles_of(const MatmulParams& p, std::int64_t size) { return ceiling(p.m, size) * ceiling(p.n, size) * std::int64_t{p.batch}; }

TileSides sides_for(const CardFacts& card, const MatmulParams& p) {
  const std::uint32_t shared = static_cast<std::uint32_t>(2 * large_sides.size() * (depth + 4) * 4);
  if (card.software() || card.group_limit < 256) return least_sides;
  return p.k >= least_large_depth && card.shared_limit >= shared && tiles_of(p, large_sides.size()) >= tiles_at_once ? large_sides
                                                                                                                     : usual_sides;
}

/// Parts of k: as many as fill the device, each long enough to be worth its sum.
std::int64_t parts_of(const MatmulParams& p, bool invariant) {
  if (invariant) return 1;
  return std::max<std::int64_t>(1, std::min(tiles_at_once / std::max<std::int64_t>(1, tiles_of(p, part_tile)), p.k / least_part));
}
std::uint64_t partial_bytes(const MatmulParams& p, std::int64_t parts) {
  return parts == 1 ? 0 : static_cast<std::uint64_t>(parts) * p.batch * p.m * p.n * 4;
}
/// The most that a product of at most these dims takes: fewer rows may have more parts.
std::uint64_t most_partial_bytes(const Call& call) {
  const MatmulParams p = product_params(call, call.input(1));
  const std::int64_t parts = call.invariant ? 1 : p.k / least_part;
  return parts <= 1 ? 0 : std::min<std::uint64_t>(partial_bytes(p, parts), tiles_at_once * part_tile * part_tile * 4);
}

bool decodes_weights(const Call& call) { return is_block(call.input(1).dtype); }
/// How many times k floats an output has in scratch.
std::int64_t matrices_of(const Tensor& b) {
  std::int64_t count = 1;
  for (std::uint32_t d = 0; d + 2 < b.rank; ++d) count *= b.dims[d];
  return count;
}
/// The most bytes that decoded outputs take, of at most these dims.
std::uint64_t decoded_bytes(const Call& call, const MatmulParams& p) {
  if (!decodes_weights(call)) return 0;
  const std::int64_t output = 4 * std::int64_t{p.k} * matrices_of(call.input(1));
  return whole_regions(static_cast<std::uint64_t>(std::min(output * p.n, std::max(most_decoded, output * outputs_a_slice))));
}
/// Outputs that are decoded at once.
std::int64_t slice_of(const Tensor& b, std::int64_t n, std::int64_t k) {
  const std::int64_t bytes = std::max<std::int64_t>(1, 4 * k * matrices_of(b));
  return std::min(n, std::max<std::int64_t>(1, most_decoded / bytes / outputs_a_slice) * outputs_a_slice);
}

bool is_wide(const Tensor& t, std::int64_t row, std::int64_t step, std::uint32_t k, std::int64_t part) {
  const std::int64_t bytes = t.dtype == QUERN_F32 ? 4 : 2;
  std::int64_t all = row | static_cast<std::int64_t>(t.data);
  for (std::uint32_t d = 0; d + 2 < t.rank; ++d) all |= t.strides[d];
  return step == bytes && all % (4 * bytes) == 0 && k % 4 == 0 && part % 4 == 0;
}

void launch_product(MatmulParams p, const Tensor& a, const Tensor& b, bool invariant, Launcher& launcher) {
  const TileSides sides = sides_for(launcher.facts(), p);
  const std::int64_t parts = parts_of(p, invariant);
  p.part_k = static_cast<uint>(ceiling(ceiling(p.k, parts), depth) * depth);
  p.parts = static_cast<uint>(parts);
  const auto constant = [](bool is, std::int32_t bit) { return is ? bit : 0; };
  const std::int32_t lies = constant(std::abs(p.a_row) < std::abs(p.a_step), 1) | constant(std::abs(p.b_row) < std::abs(p.b_step), 2) |
                            constant(is_wide(a, p.a_row, p.a_step, p.k, p.part_k), 4) |
                            constant(is_wide(b, p.b_row, p.b_step, p.k, p.part_k), 8);
  launcher.launch("matmul_tiles", static_cast<std::uint32_t>(sides.side * sides.side),
                  {std::min<std::int64_t>(ceiling(p.n, sides.size()), 65535), std::min<std::int64_t>(ceiling(p.m, sides.size()), 65535),
                   std::min<std::int64_t>(p.batch * parts, 65535)},
                  p, {static_cast<std::int32_t>(a.dtype), static_cast<std::int32_t>(b.dtype), sides.side, sides.own, sides.own, lies});
  if (parts == 1) return;
  launcher.barrier();
  Launcher::Grid grid = launcher.spread(std::int64_t{p.m} * p.n);
  grid.z = std::min<std::int64_t>(p.batch, 65535);
  launcher.launch("matmul_sums", launcher.item_threads(), grid, p);
}

}  // namespace

bool has_turned_blocks(const Call& call) { return decodes_weights(call) && call.flag(QUERN_KEY_TRANSPOSE_B); }

Tensor decode_outputs(const Call& call, std::int64_t first, std::int64_t count, std::uint64_t memory, Launcher& launcher) {
  Tensor y = call.input(1);
  const bool turned = has_turned_blocks(call);
  y.dims[y.rank - (turned ? 1 : 2)] = count;
  y.dtype = QUERN_F32;
  y.packed_layout = false;
  y.data = memory;
  std::int64_t stride = 4;
  for (std::uint32_t d = y.rank; d-- > 0; stride *= y.dims[d]) y.strides[d] = stride;
  decode_blocks(call.input(1), turned ? 0 : first, turned ? first : 0, y, launcher);
  return y;
}

MatmulParams product_params(const Call& call, const Tensor& b) {
  const Tensor &a = call.input(0), &bias = call.input(2), &c = call.input(3), &y = call.output(0);
  const std::uint32_t a_across = call.flag(QUERN_KEY_TRANSPOSE_A) ? 1 : 2, b_across = call.flag(QUERN_KEY_TRANSPOSE_B) ? 1 : 2;
  MatmulParams p{};
  p.a = a.data;
  p.b = b.data;
  p.bias = bias.data;
  p.c = c.data;
  p.y = y.data;
  p.m = static_cast<uint>(a.dims[a.rank - a_across]);
  p.n = static_cast<uint>(b.dims[b.rank - b_across]);
  p.k = static_cast<uint>(a.dims[a.rank - (3 - a_across)]);
  p.batch = 1;
  std::fill_n(p.batch_dims, most_leading, 1u);
  std::fill_n(p.group, most_leading, 1u);
  for (std::uint32_t d = 0; d + 2 < a.rank; ++d) {
    const std::int64_t at = std::int64_t{d} + b.rank - a.rank;
    p.batch_dims[d] = static_cast<uint>(a.dims[d]);
    p.batch *= p.batch_dims[d];
    p.a_batch[d] = a.strides[d];
    p.y_batch[d] = y.strides[d];
    if (c.present()) p.c_batch[d] = c.strides[d];
    if (at < 0 || b.dims[at] == 0) continue;
    p.b_batch[d] = b.strides[at];
    p.group[d] = std::max<uint>(1, static_cast<uint>(a.dims[d] / b.dims[at]));
  }
  p.a_row = a.strides[a.rank - a_across];
  p.a_step = a.strides[a.rank - (3 - a_across)];
  p.b_row = b.strides[b.rank - b_across];
  p.b_step = b.strides[b.rank - (3 - b_across)];
  p.y_row = y.strides[y.rank - 2];
  p.y_step = static_cast<int>(y.strides[y.rank - 1]);
  if (c.present()) {
    p.c_row = c.strides[c.rank - 2];
    p.c_step = static_cast<int>(c.strides[c.rank - 1]);
  }
  if (bias.present()) p.bias_step = static_cast<int>(bias.strides[0]);
  p.a_dtype = static_cast<int>(a.dtype);
  p.b_dtype = static_cast<int>(b.dtype);
  p.bias_dtype = static_cast<int>(bias.dtype);
  p.c_dtype = static_cast<int>(c.dtype);
  p.y_dtype = static_cast<int>(y.dtype);
  p.alpha = call.number(QUERN_KEY_ALPHA);
  p.beta = call.number(QUERN_KEY_BETA);
  return p;
}

std::uint64_t tiles_scratch(const Call& call) {
  const MatmulParams p = product_params(call, call.input(1));
  return decoded_bytes(call, p) + most_partial_bytes(call);
}

std::int64_t tiles_turns(const Call& call) {
  const MatmulParams p = product_params(call, call.input(1));
  const std::int64_t parts = call.invariant ? 1 : std::max<std::int64_t>(1, std::min<std::int64_t>(tiles_at_once, p.k / least_part));
  return std::max(p.k / depth, parts) + 64;
}

void launch_tiles(const Call& call, Launcher& launcher) {
  const Tensor& b = call.input(1);
  const MatmulParams p = product_params(call, b);
  const std::int64_t n = p.n, slice = decodes_weights(call) ? slice_of(b, n, p.k) : n;
  for (std::int64_t first = 0; first < n; first += slice) {
    const std::int64_t outputs = std::min(slice, n - first);
    Tensor floats = b;
    if (decodes_weights(call)) {
      if (first > 0) launcher.barrier();
      floats = decode_outputs(call, first, outputs, call.scratch, launcher);
      launcher.barrier();
    }
    MatmulParams part = product_params(call, floats);
    part.partial = call.scratch + decoded_bytes(call, p);
    part.n = static_cast<uint>(outputs);
    part.y += static_cast<std::uint64_t>(first * part.y_step);
    if (part.c != 0) part.c += static_cast<std::uint64_t>(first * part.c_step);
    if (part.bias != 0) part.bias += static_cast<std::uint64_t>(first * part.bias_step);
    launch_product(part, call.input(0), floats, call.invariant, launcher);
  }
}

}  // namespace quern::vulkan
