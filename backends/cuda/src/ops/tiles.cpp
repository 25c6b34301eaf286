// Products of few rows by kernels/tiles.cu, eight a block, and of one by kernels/stream.cu: whether they serve them, and how much a block of threads
// has under way.
#include "matmul.hpp"

#include "../kernels/row_pieces.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

std::int64_t pitch_of(std::int64_t bytes, std::int64_t apart, bool shifted) { return tiles_pitch(bytes, apart, shifted); }

constexpr int rows = tiles_rows;              // of a tile
constexpr int least_stream_rows = 2;          // of a stage of stream.cu: one of gate, one of up
constexpr std::int64_t stage_target = 40960;  // bytes of a stage, about
constexpr std::int64_t reserved = 1024;       // shared memory that the system takes for each block

/// Those of row_pieces.hpp, and of formats that have files of their own.
RowPieces pieces_of(int dtype) {
  const auto format = static_cast<quern_dtype>(dtype);
  if (!is_group_format(format)) return row_pieces(dtype);
  const sdk::BlockFields& fields = sdk::block_fields(format);
  RowPieces pieces{static_cast<int>(fields.elements), {}};
  std::ranges::transform(fields.bytes, pieces.bytes, [](std::uint32_t bytes) { return static_cast<int>(bytes); });
  return pieces;
}

/// Bytes of 16 rows of `k` elements in shared memory.
std::int64_t stage_bytes(int dtype, std::int64_t k) {
  const RowPieces layout = pieces_of(dtype);
  std::int64_t bytes = 0;
  for (const int piece : layout.bytes)
    if (piece != 0) bytes += rows * pitch_of(k / layout.elements * piece, piece < 16 ? 16 : tiles_apart(dtype), piece % 16 != 0);
  return bytes;
}

/// Bytes of `count` whole rows in a stage of stream.cu without gaps, under glu half of them of gate and half of up: see TilesParams.
std::int64_t half_bytes(std::int64_t piece, std::int64_t count) {
  const std::int64_t bytes = count * piece;
  return (bytes + 15) / 16 * 16 + (bytes % 16 != 0 ? 16 : 0);  // they start in the sixteen of their first byte
}
std::int64_t whole_bytes(int dtype, std::int64_t k, std::int64_t count, bool glu) {
  const RowPieces layout = pieces_of(dtype);
  std::int64_t bytes = 0;
  for (const int piece : layout.bytes)
    bytes += glu ? 2 * half_bytes(k / layout.elements * piece, count / 2) : half_bytes(k / layout.elements * piece, count);
  return bytes;
}

/// A stage of stream.cu of `count` rows of one part.
std::int64_t stream_stage_bytes(int dtype, std::int64_t k, std::int64_t count, bool glu) {
  return (whole_bytes(dtype, k, count, glu) + 127) / 128 * 128;
}

std::int64_t activation_bytes_of(std::int64_t k, std::int64_t t, bool floats) {
  return (t * ((floats ? pitch_of(2 * k, 64, false) : pitch_of(k, 32, false)) + k / 4 + 16) + 127) / 128 * 128;
}
std::int64_t stream_fixed_bytes(std::int64_t k) { return tiles_fixed_bytes + activation_bytes_of(k, 1, false); }
/// Elements of k in a stage. They begin with a warp's four blocks of 32, or with a block of 256.
std::int64_t chunk_of(std::int64_t k, std::int64_t unit, std::int64_t whole) {
  const std::int64_t chunks = (whole + stage_target - 1) / stage_target, step = std::max<std::int64_t>(unit, 128),
                     steps = (k + step - 1) / step;
  return (steps + chunks - 1) / chunks * step;
}
/// The largest stage of `n` rows of any part.
std::int64_t stream_stage_bytes_of(const GemvParams& g, std::int64_t n) {
  std::int64_t most = 0;
  for (int i = 0; i < g.parts; ++i) most = std::max(most, stream_stage_bytes(g.part[i].w.dtype, g.k, n, g.glu != 0));
  return most;
}

/// Rows of a stage of stream.cu: as many as keep it small; 0: it has no room. Its tiles have that many stages, and each is a share of k of its own: so
/// these shares go by the weights alone, for any number of activation rows.
std::int64_t stream_rows(const GemvParams& g, std::int64_t limit) {
  if (g.x.dtype != 0) return 0;
  const auto bytes = [&](std::int64_t n) { return stream_stage_bytes_of(g, n); };
  const std::int64_t fixed = stream_fixed_bytes(g.k);
  std::int64_t n = rows;
  while (n > least_stream_rows && (bytes(n) > stage_target || fixed + 2 * bytes(n) > limit)) n /= 2;
  return fixed + 2 * bytes(n) <= limit ? n : 0;
}

/// Elements of k of one of `shares` parts: whole turns of a warp of stream.cu, which takes blocks of `unit`.
std::int64_t share_of(std::int64_t k, std::int64_t unit, std::int64_t shares) {
  const std::int64_t turn = unit == 256 ? 2048 : 1024, turns = (k + turn - 1) / turn;
  return (turns + shares - 1) / shares * turn;
}
/// Elements of k in a stage of tiles.cu: as many as keep it small, of `share`, if that is not all.
std::int64_t chunk_of_share(std::int64_t k, std::int64_t share, std::int64_t unit, std::int64_t whole) {
  if (share >= k) return chunk_of(k, unit, whole);
  std::int64_t chunk = share;
  while (chunk % 256 == 0 && chunk > 256 && whole * chunk / k > stage_target) chunk /= 2;
  return chunk;
}

/// Where a part's pieces are in a stage of tiles.cu, or in one of p.rows whole rows.
void place_pieces(const GemvParams& g, int part, TilesParams& p) {
  const RowPieces layout = pieces_of(g.part[part].w.dtype);
  TilesParams::Pieces& q = p.pieces[part];
  q.elements = layout.elements;
  int base = 0;
  for (const int bytes : layout.bytes) {
    if (bytes == 0) continue;
    q.bytes[q.count] = bytes;
    q.base[q.count] = base;
    if (p.rows != 0) {
      q.pitch[q.count] = g.k / layout.elements * bytes;
      q.half[q.count] = static_cast<int>(half_bytes(q.pitch[q.count], p.rows / 2));
      base += static_cast<int>(g.glu != 0 ? 2 * q.half[q.count] : half_bytes(q.pitch[q.count], p.rows));
      ++q.count;
      continue;
    }
    q.pitch[q.count] =
        static_cast<int>(pitch_of(p.chunk / layout.elements * bytes, bytes < 16 ? 16 : tiles_apart(g.part[part].w.dtype), bytes % 16 != 0));
    base += rows * q.pitch[q.count++];
  }
}

/// How blocks of stream.cu share the tiles. Two teams, each with its stages; one block a multiprocessor, in one wave.
void share_stream(const GemvParams& g, std::int64_t tiles, std::int64_t fixed, std::int64_t stage, const TilesCard& card, TilesLaunch& l) {
  TilesParams& p = l.p;
  std::int64_t team_tiles = 0;
  if (g.out.codes != 0) {
    p.subtiles = g.glu != 0 ? 4 : 2;  // 32 outputs
    const std::int64_t all_groups = (tiles + p.subtiles - 1) / p.subtiles;
    p.groups = static_cast<int>((all_groups + card.multiprocessors - 1) / card.multiprocessors);
    l.grid = (all_groups + p.groups - 1) / p.groups;
    team_tiles = std::int64_t{p.subtiles} / 2 * p.groups;
  } else {  // as few blocks as keep the most that one has: the next kernel's start beside them
    const std::int64_t most = (tiles + card.multiprocessors - 1) / card.multiprocessors;
    p.subtiles = static_cast<int>(tiles);
    l.grid = (tiles + most - 1) / most;
    team_tiles = (tiles + 2 * l.grid - 1) / (2 * l.grid);
  }
  p.stages = static_cast<int>(std::min<std::int64_t>({team_tiles * p.chunks, 4, (card.shared_limit - fixed) / (2 * stage)}));
}

/// The same of tiles.cu.
void share_tiles(const GemvParams& g, std::int64_t tiles, std::int64_t fixed, std::int64_t stage, const TilesCard& card, TilesLaunch& l) {
  TilesParams& p = l.p;
  p.subtiles = g.out.codes != 0 ? (g.glu != 0 ? 4 : 2) : static_cast<int>(std::max<std::int64_t>(1, tiles / (2 * card.multiprocessors)));
  p.groups = 1;
  l.grid = (tiles + p.subtiles - 1) / p.subtiles;
  // Half of a multiprocessor, where two stages fit in it: the other half is for another block, of this kernel or of the next.
  const std::int64_t steps = std::int64_t{p.subtiles} * p.chunks, half = (card.shared_limit + reserved) / 2 - reserved;
  const std::int64_t room = (half - fixed >= std::min<std::int64_t>(steps, 2) * stage ? half : card.shared_limit) - fixed;
  p.stages = static_cast<int>(std::min<std::int64_t>({steps, tiles_most_stages, room / stage}));
}

}  // namespace

bool tiles_serve(quern_dtype dtype, std::int64_t k, std::int64_t rows, const CardFacts& card) {
  if (!card.has_bulk_copies() || k % 64 != 0) return false;
  const int d = static_cast<int>(dtype);
  const std::int64_t stage = stage_bytes(d, chunk_of(k, row_pieces(d).elements, stage_bytes(d, k))) + 127;
  return tiles_fixed_bytes + activation_bytes_of(k, rows, true) + stage <= card.shared_limit;
}

bool stream_serves(quern_dtype dtype, std::int64_t k, const CardFacts& card) {
  const int d = static_cast<int>(dtype);
  if (!card.has_bulk_copies() || k % 64 != 0 || k % pieces_of(d).elements != 0) return false;
  return stream_fixed_bytes(k) + 2 * stream_stage_bytes(d, k, least_stream_rows, false) <= card.shared_limit &&
         stream_fixed_bytes(k) + 2 * stream_stage_bytes(d, k, least_stream_rows, true) <= card.shared_limit;
}

std::optional<TilesLaunch> tiles_launch(const GemvParams& g, bool invariant, const TilesCard& card, const RawInput& raw,
                                        const Adapters* adapters) {
  if (g.k % 64 != 0) return std::nullopt;
  const std::int64_t limit = card.shared_limit;
  std::int64_t unit = 32, tiles = 0, whole = 0;
  for (int i = 0; i < g.parts; ++i) {
    if (g.part[i].w.aligned == 0) return std::nullopt;
    if (g.parts > 1 && g.part[i].rows % (g.glu != 0 ? 8 : rows) != 0) return std::nullopt;
    unit = std::max<std::int64_t>(unit, pieces_of(g.part[i].w.dtype).elements);
    whole = std::max(whole, stage_bytes(g.part[i].w.dtype, g.k));
    tiles += (g.part[i].rows + rows - 1) / rows;  // under glu: half of its rows twice, in all as many
  }
  if (g.k % unit != 0) return std::nullopt;
  TilesLaunch l{};
  TilesParams& p = l.p;
  p.g = g;
  const bool floats = g.x.dtype != 0;
  const std::int64_t fixed = tiles_fixed_bytes + activation_bytes_of(g.k, std::min<std::int64_t>(g.t, most_gemv_rows), floats),
                     of_stream = stream_rows(g, limit);
  p.share = static_cast<int>(share_of(g.k, unit, of_stream == 0 ? 1 : rows / of_stream));
  p.chunk = static_cast<int>(chunk_of_share(g.k, p.share, unit, whole));
  p.chunks = (g.k + p.chunk - 1) / p.chunk;
  std::int64_t stage = 0;
  for (int i = 0; i < g.parts; ++i) stage = std::max(stage, (stage_bytes(g.part[i].w.dtype, p.chunk) + 127) / 128 * 128);
  const std::int64_t columns = floats ? std::min<std::int64_t>(g.t, most_gemv_rows) : most_gemv_rows;
  const bool fits = tiles_fixed_bytes + activation_bytes_of(g.k, columns, floats) + 2 * stage <= limit;
  // Fewer instructions for one row. Where more rows have no room, their kernel sums in another order.
  l.stream = g.t == 1 && of_stream != 0 && (fits || !invariant);
  if (l.stream) {
    p.rows = static_cast<int>(of_stream);
    stage = stream_stage_bytes_of(g, of_stream);
    p.chunks = rows / p.rows;
  }
  // Formats of files of their own have no tiles, which results that do not depend on the number of rows need too.
  const bool groups =
      std::any_of(g.part, g.part + g.parts, [](const GemvPart& part) { return is_group_format(static_cast<quern_dtype>(part.w.dtype)); });
  if (groups && (!l.stream || invariant)) return std::nullopt;
  if (!l.stream && !fits) return std::nullopt;
  if (adapters != nullptr && (!l.stream || raw.front.kind != front_none)) return std::nullopt;
  if (raw.x != 0 && (!l.stream || (raw.front.kind != front_none && g.k > most_raw))) return std::nullopt;
  if (g.out.codes != 0 && g.part[0].rows % 32 != 0) return std::nullopt;
  if (l.stream) {
    p.raw = raw.x;
    p.raw_weight = raw.weight;
    p.raw_offset = raw.offset;
    p.raw_norm = raw.norm ? 1 : 0;
    p.settles = raw.settles ? 1 : 0;
    p.front = raw.front;
    if (adapters != nullptr) p.adapters = *adapters;
    share_stream(g, tiles, fixed, stage, card, l);
  } else {
    if (p.share >= g.k) p.share = p.chunk * p.chunks;
    share_tiles(g, tiles, fixed, stage, card, l);
  }
  for (int i = 0; i < g.parts; ++i) place_pieces(g, i, p);
  p.stage_bytes = static_cast<int>(stage);
  p.stage_offset = static_cast<int>(fixed);
  l.shared = static_cast<unsigned>(fixed + (l.stream ? 2 : 1) * p.stages * stage);
  return l;
}

}  // namespace quern::cuda
