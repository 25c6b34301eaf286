// See rings.hpp.
#include "rings.hpp"

#include "../kernels/row_pieces.hpp"

#include <algorithm>
#include <array>

namespace quern::cuda {
namespace {

constexpr std::int64_t warps = rings_warps;
constexpr std::int64_t slot_target = 4700;  // bytes of two rows in a slot, about

constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

/// Elements of a row that a warp takes at a time.
std::int64_t turn_of(int dtype) {
  switch (dtype) {
    case QUERN_F16:
    case QUERN_BF16: return 256;
    case QUERN_Q5_0:
    case QUERN_Q5_1: return 1024;
    default: return 2048;
  }
}

bool has_layout(quern_dtype dtype) {
  return dtype == QUERN_F16 || dtype == QUERN_BF16 || dtype == QUERN_Q5_0 || dtype == QUERN_Q5_1 || dtype == QUERN_Q5_K ||
         dtype == QUERN_Q6_K;
}

/// Bytes of two rows of `k` elements in a slot; a piece starts at a multiple of 16, and where it is none, in the sixteen of its first byte.
std::int64_t pitch_of(int bytes, std::int64_t blocks) { return round_up(blocks * bytes + (bytes % 16 != 0 ? 30 : 0), 16); }
std::int64_t slot_of(int dtype, std::int64_t k) {
  const RowPieces pieces = row_pieces(dtype);
  std::int64_t bytes = 0;
  for (const int piece : pieces.bytes)
    if (piece != 0) bytes += 2 * pitch_of(piece, k / pieces.elements);
  return round_up(bytes, 128);
}

struct RingShape {
  std::int64_t chunk = 0, chunks = 0, slot = 0;
};
/// Elements of k in a slot: they depend on the row's length and formats alone, since they decide the order of sums.
RingShape shape_of(const int* dtypes, int parts, std::int64_t k) {
  std::int64_t turn = 0, row = 0;
  for (int i = 0; i < parts; ++i) {
    turn = std::max(turn, turn_of(dtypes[i]));
    row = std::max(row, slot_of(dtypes[i], k));
  }
  const std::int64_t turns = (k + turn - 1) / turn, each = std::max<std::int64_t>(1, slot_target * turns / row);
  const std::int64_t slots = (turns + each - 1) / each;
  RingShape s;
  s.chunk = std::min(k, (turns + slots - 1) / slots * turn);
  s.chunks = (k + s.chunk - 1) / s.chunk;
  for (int i = 0; i < parts; ++i) s.slot = std::max(s.slot, slot_of(dtypes[i], s.chunk));
  return s;
}
std::int64_t meta_offset(bool floats, std::int64_t k) { return rings_fixed_bytes + round_up(floats ? 4 * k : k, 128); }
std::int64_t ring_offset(bool floats, std::int64_t k) { return meta_offset(floats, k) + (floats ? 0 : round_up(k / 4, 128)); }

}  // namespace

bool rings_serve(quern_dtype dtype, std::int64_t k, const CardFacts& card) {
  const int d = static_cast<int>(dtype);
  if (!has_layout(dtype) || !card.has_bulk_copies() || k % 64 != 0 || k % row_pieces(d).elements != 0) return false;
  return ring_offset(is_float(dtype), k) + warps * 2 * shape_of(&d, 1, k).slot <= card.shared_limit;
}

bool launch_rings(const GemvParams& g, const RawInput& raw, Launcher& launcher) {
  const CardFacts& card = launcher.gpu().facts();
  if (!card.has_bulk_copies() || g.k % 64 != 0) return false;
  std::array<int, 3> dtypes{};
  std::int64_t rows = 0;
  bool floats = false;
  for (int i = 0; i < g.parts; ++i) {
    const GemvPart& part = g.part[i];
    dtypes[static_cast<std::size_t>(i)] = part.w.dtype;
    floats = is_float(static_cast<quern_dtype>(part.w.dtype));
    if (!has_layout(static_cast<quern_dtype>(part.w.dtype)) || part.w.aligned == 0) return false;
    if (g.k % row_pieces(part.w.dtype).elements != 0) return false;
    if (i + 1 < g.parts && part.rows % 2 != 0) return false;
    rows += part.rows;
  }
  if ((floats && raw.x == 0) || (raw.front.kind != front_none && g.k > most_raw)) return false;
  const RingShape shape = shape_of(dtypes.data(), g.parts, g.k);
  RingParams p{};
  p.g = g;
  p.pairs = static_cast<int>(g.glu != 0 ? g.part[0].rows : (rows + 1) / 2);
  p.chunks = static_cast<int>(shape.chunks);
  p.slot_bytes = static_cast<int>(shape.slot);
  p.meta_offset = static_cast<int>(meta_offset(floats, g.k));
  p.ring_offset = static_cast<int>(ring_offset(floats, g.k));
  p.odd = g.glu == 0 && rows % 2 != 0 ? 1 : 0;
  int pairs = 0;
  for (int i = 0; i < g.parts; ++i) {
    const RowPieces layout = row_pieces(g.part[i].w.dtype);
    RingParams::Pieces& q = p.pieces[i];
    q.first = g.glu != 0 ? 0 : pairs;
    q.end = pairs = q.first + (g.glu != 0 ? g.part[i].rows : (g.part[i].rows + 1) / 2);
    q.blocks = g.k / layout.elements;
    q.here = static_cast<int>(shape.chunk / layout.elements);
    std::int64_t base = 0;
    for (const int bytes : layout.bytes) {
      if (bytes == 0) continue;
      q.bytes[q.count] = bytes;
      q.base[q.count] = static_cast<int>(base);
      q.pitch[q.count] = static_cast<int>(pitch_of(bytes, q.here));
      base += 2 * q.pitch[q.count++];
    }
  }
  p.raw = raw.x;
  p.raw_weight = raw.weight;
  p.raw_offset = raw.offset;
  p.raw_norm = raw.norm ? 1 : 0;
  p.settles = raw.settles ? 1 : 0;
  p.front = raw.front;
  const std::int64_t grid = std::min<std::int64_t>(launcher.multiprocessors(), (p.pairs + warps - 1) / warps);
  const std::int64_t most = (p.pairs + warps * grid - 1) / (warps * grid) * p.chunks;  // that a warp has to do
  const std::int64_t slots = std::min<std::int64_t>({most, rings_most_slots, (card.shared_limit - p.ring_offset) / (warps * p.slot_bytes)});
  if (slots < 1) return false;
  p.slots = static_cast<int>(slots);
  launcher.launch(is_general(g, raw) ? kernels::rings_general : kernels::rings, {grid, 1, 1}, static_cast<unsigned>(32 * warps), p,
                  static_cast<unsigned>(p.ring_offset + warps * slots * p.slot_bytes));
  return true;
}

}  // namespace quern::cuda
