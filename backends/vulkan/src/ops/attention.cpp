// Attention over paged keys.
#include "attention.hpp"
#include "paged.hpp"
#include "tables.hpp"

#include <bit>

namespace quern::vulkan {
namespace {

std::string refuse_attention(const Call& call) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2), &mask = call.input(7), &y = call.output(0);
  return first_of({check_pages(k, {&call.input(3), &call.input(4), &call.input(5), &call.input(6)}), sdk::check_packed_rows(v),
                   sdk::check_packed_rows(q), sdk::check_packed_rows(y), sdk::check_packed_rows(mask)});
}

AttentionParams attention_params(const Call& call, Launcher& launcher) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2), &blocks = call.input(3), &mask = call.input(7),
               &sinks = call.input(8), &y = call.output(0);
  AttentionParams p{};
  p.q = q.data, p.q_row = q.strides[0], p.q_head = q.strides[1], p.q_dtype = static_cast<int>(q.dtype);
  p.y = y.data, p.y_row = y.strides[0], p.y_head = y.strides[1], p.y_dtype = static_cast<int>(y.dtype);
  p.k_cache = k.data, p.k_page = k.strides[0], p.k_head = k.strides[1], p.k_position = k.strides[2];
  p.v_cache = v.data, p.v_page = v.strides[0], p.v_head = v.strides[1], p.v_position = v.strides[2];
  p.block_table = blocks.data;
  p.row_slot = call.input(4).data;
  p.position = call.input(5).data;
  p.kv_len = call.input(6).data;
  p.faults = launcher.faults();
  p.mask = mask.data, p.mask_row = mask.strides[0], p.mask_dtype = static_cast<int>(mask.dtype);
  p.mask_columns = mask.present() ? mask.dims[1] : 0;
  p.sinks = sinks.data, p.sink_dtype = static_cast<int>(sinks.dtype), p.sink_step = static_cast<int>(sinks.strides[0]);
  p.window = call.integer(QUERN_KEY_WINDOW);
  p.rows = static_cast<uint>(q.dims[0]);
  p.heads = static_cast<uint>(q.dims[1]);
  p.kv_heads = static_cast<uint>(k.dims[1]);
  p.d = static_cast<uint>(q.dims[2]);
  p.dv = static_cast<uint>(v.dims[3]);
  p.pages = static_cast<int>(k.dims[0]);
  p.page = static_cast<int>(k.dims[2]);
  p.sequences = static_cast<int>(blocks.dims[0]);
  p.pages_a_sequence = static_cast<int>(blocks.dims[1]);
  p.causal = call.flag(QUERN_KEY_CAUSAL) ? 1 : 0;
  p.scale = call.number(QUERN_KEY_SCALE);
  p.softcap = call.number(QUERN_KEY_SOFTCAP);
  p.max_bias = call.number(QUERN_KEY_MAX_BIAS);
  return p;
}
/// Keys that a sequence has at the most.
std::int64_t room_of(const Call& call) { return call.input(3).dims[1] * call.input(1).dims[2]; }

/// Lanes of attention.comp, and of them those that share a key's values. A software device has few lanes, which take turns on a processor's vectors;
/// many keys get more, since such a device may end loops that take too many turns (quirks.def).
struct AttentionLanes {
  std::uint32_t all, columns;
};
AttentionLanes attention_lanes(const Call& call, bool software, std::uint32_t limit) {
  const std::uint32_t all = std::min(!software ? 128u : room_of(call) <= 8192 ? 32u : 1024u, limit);
  std::uint32_t columns = std::min(32u, all);
  while (columns < all && columns < call.input(2).dims[3]) columns *= 2;
  return {all, columns};
}

/// At most, on a software device of 1,024 lanes.
std::int64_t attention_turns(const Call& call) {
  const std::int64_t room = room_of(call), d = call.input(0).dims[2], dv = call.input(2).dims[3],
                     rows = (call.input(0).dims[0] + 65534) / 65535;
  const std::int64_t window = call.integer(QUERN_KEY_WINDOW), keys = window > 0 ? std::min(room, window) : room;
  if (room > std::int64_t{1} << 40) return INT64_MAX;
  const AttentionLanes lanes = attention_lanes(call, true, 1024);
  const auto parts = [](std::int64_t of, std::int64_t each) { return (of + each - 1) / each; };
  const std::int64_t score = d % 16 == 0 ? d / 16 * 9 : d, groups = lanes.all / lanes.columns;  // groups of 16, and the pairs of each
  return rows * parts(dv, 8 * lanes.columns) *
         (1 + parts(call.input(3).dims[1], lanes.all) + 8 * groups + parts(keys, lanes.all) * (1 + score + parts(lanes.all, groups)));
}

void emit_attention(const Call& call, Launcher& launcher) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  const AttentionParams p = attention_params(call, launcher);
  const AttentionLanes lanes = attention_lanes(call, launcher.facts().software(), launcher.facts().group_limit);
  launcher.launch("attention", lanes.all, {q.dims[1], std::min<std::int64_t>(q.dims[0], 65535), 1}, p,
                  {static_cast<std::int32_t>(k.dtype), static_cast<std::int32_t>(v.dtype), static_cast<std::int32_t>(lanes.columns)});
}

}  // namespace

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

/// Of one row, rotated on the way, where keys and values lie as attention_row.comp reads them; else false.
static bool launch_row_attention(const AttentionParams& a, int k_dtype, int v_dtype, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const std::uint32_t most = std::max(a.d, a.dv);
  if (!card.shuffles || a.d % 8 != 0 || a.dv % 8 != 0 || most / 8 > card.subgroup) return false;
  for (const std::int64_t stride : {a.k_page, a.k_head, a.k_position, a.v_page, a.v_head, a.v_position})
    if (stride % 16 != 0 || stride < 0 || stride > INT32_MAX) return false;
  if (a.k_cache % 16 != 0 || a.v_cache % 16 != 0 || a.y_head != std::int64_t{a.dv} * 4 || a.y_dtype != static_cast<int>(QUERN_F32))
    return false;
  if (a.window > INT32_MAX || a.table_stride > INT32_MAX || a.table_stride < 0) return false;
  const std::uint32_t threads = std::min<std::uint32_t>(card.software() ? 32 : 512, card.group_limit) / card.subgroup * card.subgroup,
                      subgroups = threads / card.subgroup;
  if (subgroups > card.subgroup || (subgroups * most + 3 * most) * 4 + 4096 > card.shared_limit) return false;
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
  p.table = a.table, p.positions = a.positions, p.scale = a.scale;
  p.pages = a.pages, p.sequences = a.sequences, p.pages_a_sequence = a.pages_a_sequence;
  p.y = a.y, p.heads = a.heads, p.kv_heads = a.kv_heads;
  std::int32_t key_lanes = 1;
  while (static_cast<std::uint32_t>(key_lanes) * 8 < most) key_lanes *= 2;
  const auto number = [](auto value) { return static_cast<std::int32_t>(value); };
  launcher.launch("attention_row", threads, {p.heads, 1, 1}, p,
                  {k_dtype, v_dtype, number(most), key_lanes, number(subgroups), a.page, number(a.k_position), number(a.v_position),
                   number(a.d), number(a.dv), number(a.pairs), a.mode, number(std::max<std::int64_t>(0, a.window)),
                   a.softcap > 0 ? std::bit_cast<std::int32_t>(a.softcap) : 0, number(a.table_stride)});
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
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  if (q.dims[0] == 0) return;
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
  if (unrotated != nullptr) {
    if (launcher.join(p, static_cast<int>(k.dtype), static_cast<int>(v.dtype))) return;
    if (launch_row_attention(p, static_cast<int>(k.dtype), static_cast<int>(v.dtype), launcher)) return;
  }
  const std::int64_t at_once = std::int64_t{launcher.facts().subgroup_least} * 4;
  launcher.launch("attention_fused", fused_attention_threads(launcher.facts(), q.dims[0] * q.dims[1]),
                  {q.dims[1], std::min<std::int64_t>(q.dims[0], 65535), 1}, p,
                  {static_cast<std::int32_t>(k.dtype), static_cast<std::int32_t>(v.dtype),
                   static_cast<std::int32_t>((std::max(q.dims[2], v.dims[3]) + at_once - 1) / at_once), unrotated != nullptr ? 1 : 0});
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

bool matrix_attention_pays(const Call& call) { return call.input(0).dims[0] > 16 && call.input(3).dims[0] == 1; }

void launch_matrix_attention(const Call& call, Launcher& launcher) {
  const CardFacts& card = launcher.facts();
  const AttentionParams p = attention_params(call, launcher);
  const std::int64_t rows = std::int64_t{card.matrices.m} * 4;
  launcher.launch("attention_matrix", 4 * card.subgroup, {p.heads, (p.rows + rows - 1) / rows, 1}, p,
                  {static_cast<std::int32_t>(card.matrices.m), static_cast<std::int32_t>(card.matrices.n),
                   static_cast<std::int32_t>(card.matrices.k), static_cast<std::int32_t>(p.d),
                   static_cast<std::int32_t>(card.layout.rows_of_parts), static_cast<std::int32_t>(card.layout.rows),
                   static_cast<std::int32_t>(card.layout.lanes),
                   (card.layout.left_like_sums ? 1 : 0) + (p.softcap > 0 ? 2 : 0) + (matrix_attention_keys(card, p.d) == 64 ? 4 : 0)});
}

const Op attention_op = offer(QUERN_OP_ATTENTION, "attention.vulkan", refuse_attention, emit_attention).with_turns(attention_turns);

}  // namespace quern::vulkan
