// Attention of fused schedules: of one row, of some rows, and of many by cooperative matrices.
#include "attention.hpp"

#include <bit>

namespace quern::vulkan {

bool fused_attention_serves(const Call& call, const CardFacts& card) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  if (!call.flag(QUERN_KEY_CAUSAL) || call.input(7).present() || call.input(8).present() || call.real(QUERN_KEY_MAX_BIAS) != 0)
    return false;
  if (!is_float(k.dtype) || !is_float(v.dtype) || q.dims[2] % 4 != 0 || v.dims[3] % 4 != 0 || q.dims[2] > 256 || v.dims[3] > 256)
    return false;
  if (card.subgroup_least < 4 || 512 / card.subgroup_least > 64) return false;
  for (const Tensor* cache : {&k, &v})
    for (int d = 0; d < 3; ++d)
      if (cache->strides[d] % (cache->dtype == QUERN_F32 ? 16 : 8) != 0) return false;
  return std::int64_t{call.input(3).dims[1]} * k.dims[2] < std::int64_t{1} << 31;
}

/// Few rows and heads: more subgroups for the keys of each. Many: what their results cost to join is saved, since all are at work at once.
static std::uint32_t fused_attention_threads(const CardFacts& card, std::int64_t groups) {
  if (card.software()) return 32;
  const std::int64_t share = std::int64_t{card.multiprocessors != 0 ? card.multiprocessors : 32} * 1024 / std::max<std::int64_t>(1, groups);
  return std::min<std::uint32_t>(share >= 512 ? 512 : share >= 256 ? 256 : 128, card.group_limit);
}

/// A workgroup a row and head. `tile_rows`: of a tile of attention_matrix.comp, which has the rows that many neighbours share a sequence with; or 0.
static void launch_rows_attention(const AttentionParams& p, int k_dtype, int v_dtype, bool rotates, std::int64_t tile_rows,
                                  Launcher& launcher) {
  const std::int64_t at_once = std::int64_t{launcher.facts().subgroup_least} * 4;
  launcher.launch("attention_fused", fused_attention_threads(launcher.facts(), std::int64_t{p.rows} * p.heads),
                  {p.heads, std::min<std::int64_t>(p.rows, 65535), 1}, p,
                  {k_dtype, v_dtype, static_cast<std::int32_t>((std::max(p.d, p.dv) + at_once - 1) / at_once), rotates ? 1 : 0,
                   static_cast<std::int32_t>(tile_rows)});
}

/// Keys up to which a head of a row is one workgroup's: what parts cost to join is more than they save. On a software device few, so that tests see
/// both ways.
constexpr std::int32_t few_keys = 128, few_keys_in_software = 24;
constexpr std::uint32_t most_row_parts = 64;  // of the keys of a group of heads
constexpr std::uint32_t most_heads_together = 8;

/// How attention_row.comp shares the keys of a row out.
struct RowShares {
  std::uint32_t subgroups = 1;  // of a workgroup
  std::uint32_t heads = 1;      // of a workgroup: a power of two, those of a key head or some of them
  std::uint32_t groups = 1;     // of heads
  std::uint32_t parts = 1;      // of the keys of a group, at the most: as many as keep the device full
  std::uint64_t bytes(std::uint32_t dv) const { return std::uint64_t{groups} * parts * heads * (std::uint64_t{dv} * 4 + 8); }
};
static RowShares row_shares(const CardFacts& card, std::uint32_t heads, std::uint32_t kv_heads) {
  RowShares shares;
  const std::uint32_t sharing = heads / std::max(1u, kv_heads);
  shares.subgroups = std::max(1u, std::min<std::uint32_t>(card.software() ? 32 : 512, card.group_limit) / std::max(1u, card.subgroup));
  while (shares.heads < std::min(sharing, most_heads_together) && shares.subgroups % (2 * shares.heads) == 0) shares.heads *= 2;
  shares.groups = std::max(1u, kv_heads * ((sharing + shares.heads - 1) / shares.heads));
  const std::uint32_t at_once = card.software() ? 4 * shares.groups : 2 * (card.multiprocessors != 0 ? card.multiprocessors : 32);
  shares.parts = std::clamp(at_once / shares.groups, 1u, most_row_parts);
  return shares;
}

std::uint64_t fused_attention_scratch(const Call& call, const CardFacts& card) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  return row_shares(card, static_cast<std::uint32_t>(q.dims[1]), static_cast<std::uint32_t>(k.dims[1]))
      .bytes(static_cast<std::uint32_t>(v.dims[3]));
}

/// Of one row, rotated on the way, where keys and values lie as attention_row.comp reads them; else false.
static bool launch_row_attention(const AttentionParams& a, int k_dtype, int v_dtype, std::uint64_t scratch, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const std::uint32_t most = std::max(a.d, a.dv);
  if (!card.shuffles || a.d % 8 != 0 || a.dv % 8 != 0 || most / 8 > card.subgroup) return false;
  for (const std::int64_t stride : {a.k_page, a.k_head, a.k_position, a.v_page, a.v_head, a.v_position})
    if (stride % 16 != 0 || stride < 0 || stride > INT32_MAX) return false;
  if (a.k_cache % 16 != 0 || a.v_cache % 16 != 0 || a.y % 16 != 0 || a.y_head != std::int64_t{a.dv} * 4 ||
      a.y_dtype != static_cast<int>(QUERN_F32))
    return false;
  if (a.window > INT32_MAX || a.table_stride > INT32_MAX || a.table_stride < 0) return false;
  RowShares shares = row_shares(card, a.heads, a.kv_heads);
  if (shares.subgroups > card.subgroup ||
      ((shares.subgroups + shares.heads + 2) * most + shares.heads * (shares.parts + 1)) * 4 + 4096 > card.shared_limit)
    return false;
  AttentionRowParams p{};
  p.x = std::min({a.q, a.new_k, a.new_v});
  const auto word = [&](std::uint64_t at) { return (at - p.x) / 4; };
  if (word(std::max({a.q, a.new_k, a.new_v})) > UINT32_MAX / 2) return false;
  p.q_word = static_cast<uint>(word(a.q));
  p.k_word = static_cast<uint>(word(a.new_k));
  p.v_word = static_cast<uint>(word(a.new_v));
  p.k_cache = a.k_cache, p.k_page = static_cast<uint>(a.k_page), p.k_head = static_cast<uint>(a.k_head);
  p.v_cache = a.v_cache, p.v_page = static_cast<uint>(a.v_page), p.v_head = static_cast<uint>(a.v_head);
  p.block_table = a.block_table, p.row_slot = a.row_slot, p.position = a.position, p.faults = a.faults;
  p.table = a.table;
  p.positions = a.positions;
  p.pages = a.pages, p.pages_a_sequence = a.pages_a_sequence;
  p.y = a.y;
  p.counters = shares.parts > 1 ? launcher.counters(shares.groups) : 0;
  if (p.counters == 0) shares.parts = shares.heads = 1;
  else launcher.touch({scratch, scratch + shares.bytes(a.dv), true});
  p.parts = scratch;
  std::int32_t key_lanes = 1;
  while (static_cast<std::uint32_t>(key_lanes) * 8 < most) key_lanes *= 2;
  const auto number = [](auto value) { return static_cast<std::int32_t>(value); };
  launcher.launch("attention_row", shares.subgroups * card.subgroup, {std::max(a.heads, shares.groups * shares.parts), 1, 1}, p,
                  {k_dtype,
                   v_dtype,
                   number(most),
                   key_lanes,
                   number(shares.subgroups),
                   a.page,
                   number(a.k_position),
                   number(a.v_position),
                   number(a.d),
                   number(a.dv),
                   number(a.pairs),
                   a.mode,
                   number(std::max<std::int64_t>(0, a.window)),
                   a.softcap > 0 ? std::bit_cast<std::int32_t>(a.softcap) : 0,
                   number(a.table_stride),
                   number(shares.heads),
                   number(shares.parts),
                   card.software() ? few_keys_in_software : few_keys,
                   number(a.heads),
                   number(a.kv_heads),
                   a.sequences,
                   std::bit_cast<std::int32_t>(a.scale)});
  return true;
}

void launch_rope_kv(const Call& attention, const Unrotated& from, Launcher& launcher) {
  const AttentionParams a = attention_params(attention, launcher);
  const Tensor& table = from.table;
  const RopeKvParams p{from.q.data,
                       a.q,
                       from.k.data,
                       from.v.data,
                       table.data,
                       a.position,
                       a.row_slot,
                       a.block_table,
                       a.k_cache,
                       a.v_cache,
                       a.faults,
                       table.strides[0],
                       a.k_page,
                       a.k_head,
                       a.k_position,
                       a.v_page,
                       a.v_head,
                       a.v_position,
                       a.rows,
                       a.heads,
                       a.kv_heads,
                       a.d,
                       a.dv,
                       static_cast<uint>(table.dims[1]),
                       static_cast<int>(table.dims[0]),
                       static_cast<int>(from.mode),
                       a.pages,
                       a.page,
                       a.sequences,
                       a.pages_a_sequence,
                       static_cast<int>(attention.input(1).dtype),
                       static_cast<int>(attention.input(2).dtype)};
  Launcher::Grid grid = launcher.spread(std::int64_t{p.heads + p.kv_heads} * (p.d - p.pairs) + std::int64_t{p.kv_heads} * p.dv);
  grid.y = std::min<std::int64_t>(p.rows, 65535);
  if (p.rows >= 64) grid.x = (grid.x + 7) / 8;  // what an invocation looks up for its row then serves eight items
  launcher.launch("rope_kv", launcher.item_threads(), grid, p);
}

void launch_fused_attention(const Call& call, const Unrotated* unrotated, Launcher& launcher) {
  if (call.input(0).dims[0] == 0) return;
  AttentionParams p = attention_params(call, launcher);
  if (unrotated != nullptr) {
    p.q = unrotated->q.data;
    p.new_k = unrotated->k.data;
    p.new_v = unrotated->v.data;
    p.table = unrotated->table.data;
    p.table_stride = unrotated->table.strides[0];
    p.positions = static_cast<int>(unrotated->table.dims[0]);
    p.pairs = static_cast<uint>(unrotated->table.dims[1]);
    p.mode = static_cast<int>(unrotated->mode);
  }
  const int k_dtype = static_cast<int>(call.input(1).dtype), v_dtype = static_cast<int>(call.input(2).dtype);
  if (unrotated != nullptr) {
    if (launcher.join(p, k_dtype, v_dtype)) return;
    if (launch_row_attention(p, k_dtype, v_dtype, call.scratch, launcher)) return;
  }
  launch_rows_attention(p, k_dtype, v_dtype, unrotated != nullptr, 0, launcher);
}

/// Keys that a workgroup has in shared memory at a time, as many as there is room for what the kernel declares; 0: not even the least.
static std::uint32_t matrix_attention_keys(const CardFacts& card, std::uint32_t d) {
  const std::uint32_t rows = 4 * card.matrices.m;
  for (const std::uint32_t keys : {64u, 32u}) {
    const std::uint32_t caches = 2 * keys * (d + 8) * 2, queries = rows * (d + 8) * 2,
                        result = rows * (std::min<std::uint32_t>(d, 64) + 4) * 4;
    const std::uint32_t rest = (card.layout.left_like_sums ? 16 : rows * (keys + 8) * 2) + rows * 16 + keys * 32 + 16;
    if (4 * card.subgroup >= keys && std::max({caches, queries, result}) + rest <= card.shared_limit) return keys;
  }
  return 0;
}

bool matrix_attention_serves(const Call& call, const CardFacts& card) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2), &y = call.output(0);
  const MatrixShape& shape = card.matrices;
  if (shape.m == 0 || card.layout.rows == 0 || card.subgroup % shape.m != 0 || !fused_attention_serves(call, card)) return false;
  if (q.dtype != QUERN_F32 || y.dtype != QUERN_F32 || k.dtype != QUERN_F16 || v.dtype != QUERN_F16) return false;
  if (q.dims[2] != v.dims[3] || q.dims[2] % 16 != 0 || q.dims[2] > 128) return false;
  if (matrix_attention_keys(card, static_cast<std::uint32_t>(q.dims[2])) == 0) return false;
  for (const Tensor* t : {&q, &y, &k, &v})
    for (std::uint32_t i = 0; i + 1 < t->rank; ++i)
      if (t->strides[i] % 16 != 0) return false;
  return true;
}

/// Workgroups of attention_matrix.comp that share the keys of a tile of rows, so that the device is full: `groups` have a tile and head each.
static std::int64_t matrix_parts(const CardFacts& card, std::int64_t groups) {
  constexpr std::int64_t most_parts = 16, at_once_in_software = 64;
  const std::int64_t at_once = card.software() ? at_once_in_software
                                               : std::int64_t{card.multiprocessors != 0 ? card.multiprocessors : 32} * 2;
  return std::clamp<std::int64_t>(at_once / std::max<std::int64_t>(1, groups), 1, most_parts);
}
static std::uint64_t matrix_parts_bytes(std::int64_t parts, std::int64_t rows, std::int64_t heads, std::int64_t d) {
  return parts == 1 ? 0 : static_cast<std::uint64_t>(parts * rows * heads) * (static_cast<std::uint64_t>(d) * 4 + 8);
}
static std::int64_t matrix_rows(const CardFacts& card) { return std::int64_t{card.matrices.m} * 4; }  // of a tile

std::uint64_t matrix_attention_scratch(const Call& call, const CardFacts& card) {
  const std::int64_t heads = call.input(0).dims[1], d = call.input(0).dims[2];
  std::uint64_t most = 0;
  // Parts are fewer with each tile more, so whole tiles have the most rows of so many parts.
  for (std::int64_t tiles = 1, rows = 0, parts = 2; rows < call.input(0).dims[0] && parts > 1; ++tiles) {
    rows = std::min(tiles * matrix_rows(card), call.input(0).dims[0]);
    parts = matrix_parts(card, heads * tiles);
    most = std::max(most, matrix_parts_bytes(parts, rows, heads, d));
  }
  return most;
}

bool matrix_attention_pays(const Call& call) {
  const std::int64_t rows = call.input(0).dims[0], sequences = call.input(3).dims[0];
  if (sequences == 1) return rows >= std::int64_t{least_rows_together};
  return rows > 16 && rows > sequences;  // else each may have one
}

void launch_matrix_attention(const Call& call, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const AttentionParams rows = attention_params(call, launcher);
  AttentionParams p = rows;
  const std::int64_t tiles = (p.rows + matrix_rows(card) - 1) / matrix_rows(card), parts = matrix_parts(card, p.heads * tiles);
  const bool leaves = p.sequences > 1;
  const AttentionJoinParams join{call.scratch, p.y, p.y_row, p.y_head, p.rows, p.heads, p.d, static_cast<uint>(parts)};
  if (parts > 1) {
    p.y = call.scratch;
    p.y_head = std::int64_t{p.d} * 4;
    p.y_row = p.heads * p.y_head;
    launcher.touch({p.y, p.y + matrix_parts_bytes(parts, p.rows, p.heads, p.d), true});
  }
  launcher.launch("attention_matrix", 4 * card.subgroup, {p.heads, tiles, parts}, p,
                  {static_cast<std::int32_t>(card.matrices.m), static_cast<std::int32_t>(card.matrices.n),
                   static_cast<std::int32_t>(card.matrices.k), static_cast<std::int32_t>(p.d),
                   static_cast<std::int32_t>(card.layout.rows_of_parts), static_cast<std::int32_t>(card.layout.rows),
                   static_cast<std::int32_t>(card.layout.lanes),
                   (card.layout.left_like_sums ? 1 : 0) + (p.softcap > 0 ? 2 : 0) + (matrix_attention_keys(card, p.d) == 64 ? 4 : 0) +
                       (leaves ? 8 : 0)});
  if (leaves) launch_rows_attention(rows, QUERN_F16, QUERN_F16, false, matrix_rows(card), launcher);
  if (parts == 1) return;
  launcher.barrier();
  launcher.launch("attention_join", launcher.item_threads(), launcher.spread(std::int64_t{p.rows} * p.heads * p.d / 4), join);
}

}  // namespace quern::vulkan
