// Products of up to 8 rows by kernels/tiles.cu, and of one by kernels/stream.cu: whether they serve them, and how much a block of threads
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
/// Elements of k in a stage: they depend on shape and format alone, since they decide the order of sums.
std::int64_t chunk_of(std::int64_t k, std::int64_t unit, std::int64_t whole) {
  const std::int64_t chunks = (whole + stage_target - 1) / stage_target, units = k / unit;
  return (units + chunks - 1) / chunks * unit;
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
  p.chunk = static_cast<int>(chunk_of(g.k, unit, whole));
  p.chunks = (g.k + p.chunk - 1) / p.chunk;
  std::int64_t stage = 0;
  for (int i = 0; i < g.parts; ++i) stage = std::max(stage, (stage_bytes(g.part[i].w.dtype, p.chunk) + 127) / 128 * 128);
  const bool floats = g.x.dtype != 0;
  const std::int64_t fixed = tiles_fixed_bytes + activation_bytes_of(g.k, g.t, floats);
  bool stream = g.t == 1 && !floats && !invariant;  // fewer instructions for one row, sums in another order
  if (stream) {                                     // as many rows in a stage as keep it small
    const auto bytes = [&](std::int64_t n) {
      std::int64_t most = 0;
      for (int i = 0; i < g.parts; ++i) most = std::max(most, stream_stage_bytes(g.part[i].w.dtype, g.k, n, g.glu != 0));
      return most;
    };
    p.rows = rows;
    while (p.rows > least_stream_rows && (bytes(p.rows) > stage_target || fixed + 2 * bytes(p.rows) > limit)) p.rows /= 2;
    stream = fixed + 2 * bytes(p.rows) <= limit;
    if (stream) {
      stage = bytes(p.rows);
      p.chunks = rows / p.rows;
    } else {
      p.rows = 0;
    }
  }
  // Formats of files of their own have no tiles.
  const bool groups =
      std::any_of(g.part, g.part + g.parts, [](const GemvPart& part) { return is_group_format(static_cast<quern_dtype>(part.w.dtype)); });
  if (groups && !stream) return std::nullopt;
  if (!stream && tiles_fixed_bytes + activation_bytes_of(g.k, floats ? g.t : most_gemv_rows, floats) + 2 * stage > limit)
    return std::nullopt;
  if (adapters != nullptr && (!stream || raw.front.kind != front_none)) return std::nullopt;
  if (raw.x != 0 && (!stream || (raw.front.kind != front_none && g.k > most_raw))) return std::nullopt;
  if (g.out.codes != 0 && g.part[0].rows % 32 != 0) return std::nullopt;
  if (stream) {  // two teams, each with its stages; one block a multiprocessor, in one wave
    p.raw = raw.x;
    p.raw_weight = raw.weight;
    p.raw_offset = raw.offset;
    p.raw_norm = raw.norm ? 1 : 0;
    p.settles = raw.settles ? 1 : 0;
    p.front = raw.front;
    if (adapters != nullptr) p.adapters = *adapters;
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
    p.stages = static_cast<int>(std::min<std::int64_t>({team_tiles * p.chunks, 4, (limit - fixed) / (2 * stage)}));
  } else {
    p.subtiles = g.out.codes != 0 ? (g.glu != 0 ? 4 : 2) : static_cast<int>(std::max<std::int64_t>(1, tiles / (2 * card.multiprocessors)));
    p.groups = 1;
    l.grid = (tiles + p.subtiles - 1) / p.subtiles;
    // Half of a multiprocessor, where two stages fit in it: the other half is for another block, of this kernel or of the next.
    const std::int64_t steps = std::int64_t{p.subtiles} * p.chunks, half = (limit + reserved) / 2 - reserved;
    const std::int64_t room = (half - fixed >= std::min<std::int64_t>(steps, 2) * stage ? half : limit) - fixed;
    p.stages = static_cast<int>(std::min<std::int64_t>({steps, tiles_most_stages, room / stage}));
  }
  for (int i = 0; i < g.parts; ++i) {
    const RowPieces layout = pieces_of(g.part[i].w.dtype);
    TilesParams::Pieces& q = p.pieces[i];
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
          static_cast<int>(pitch_of(p.chunk / layout.elements * bytes, bytes < 16 ? 16 : tiles_apart(g.part[i].w.dtype), bytes % 16 != 0));
      base += rows * q.pitch[q.count++];
    }
  }
  p.stage_bytes = static_cast<int>(stage);
  p.stage_offset = static_cast<int>(fixed);
  l.shared = static_cast<unsigned>(fixed + (stream ? 2 : 1) * p.stages * stage);
  l.stream = stream;
  return l;
}

}  // namespace quern::cuda
