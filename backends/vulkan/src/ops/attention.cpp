// attention over paged keys; kv_write, kv_copy and kv_move.
#include "attention.hpp"
#include "tables.hpp"

namespace quern::vulkan {

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

namespace {

/// The indices into a cache are packed, and so is the vector of a slot.
std::string check_pages(const Tensor& cache, std::initializer_list<const Tensor*> indices) {
  std::string reason = sdk::check_packed_rows(cache);
  for (const Tensor* t : indices) reason = first_of({reason, check_contiguous(*t)});
  return reason;
}

std::string refuse_attention(const Call& call) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2), &mask = call.input(7), &y = call.output(0);
  return first_of({check_pages(k, {&call.input(3), &call.input(4), &call.input(5), &call.input(6)}), sdk::check_packed_rows(v),
                   sdk::check_packed_rows(q), sdk::check_packed_rows(y), sdk::check_packed_rows(mask)});
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

KvParams cache_params(const Tensor& cache, const Tensor& block_table, Launcher& launcher) {
  KvParams p{};
  p.cache = cache.data;
  p.page_stride = cache.strides[0];
  p.head_stride = cache.strides[1];
  p.position_stride = cache.strides[2];
  p.pages = static_cast<int>(cache.dims[0]);
  p.page = static_cast<int>(cache.dims[2]);
  p.kv_heads = static_cast<uint>(cache.dims[1]);
  p.d = static_cast<uint>(cache.dims[3]);
  const sdk::ElementSize size = sdk::element_size(cache.dtype);
  p.row_bytes = static_cast<int>(cache.dims[3] / static_cast<std::int64_t>(size.elements) * static_cast<std::int64_t>(size.bytes));
  p.block_table = block_table.data;
  if (block_table.present()) {
    p.sequences = static_cast<int>(block_table.dims[0]);
    p.pages_a_sequence = static_cast<int>(block_table.dims[1]);
  }
  p.faults = launcher.faults();
  return p;
}

std::string refuse_kv_write(const Call& call) {
  const Tensor& x = call.input(0);
  return first_of({check_pages(call.output(0), {&call.input(1), &call.input(2), &call.input(3)}),
                   x.elements() >= std::int64_t{1} << 31 ? concat(describe(x), "; fewer than 2^31 elements are taken") : ""});
}
void emit_kv_write(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &cache = call.output(0);
  KvParams p = cache_params(cache, call.input(1), launcher);
  p.x = x.data;
  p.row_slot = call.input(2).data;
  p.position = call.input(3).data;
  p.predicate = call.predicate.data;
  p.x_row = x.strides[0];
  p.x_head = x.strides[1];
  p.x_step = static_cast<int>(x.strides[2]);
  p.x_dtype = static_cast<int>(x.dtype);
  p.rows = static_cast<uint>(x.dims[0]);
  launcher.launch("kv_write", launcher.item_threads(), launcher.spread(x.elements() / (is_block(cache.dtype) ? 32 : 1)), p,
                  {static_cast<std::int32_t>(cache.dtype)});
}

std::string check_caches(const Call& call, std::initializer_list<const Tensor*> indices) {
  const Tensor &from = call.input(0), &to = call.output(0);
  for (std::uint32_t d = 0; d < 4; ++d)
    if (from.strides[d] != to.strides[d]) return concat(describe(from), " and ", describe(to), " lie in other steps");
  return check_pages(from, indices);
}
std::string refuse_kv_copy(const Call& call) { return check_caches(call, {&call.input(1), &call.input(2)}); }
void emit_kv_copy(const Call& call, Launcher& launcher) {
  const Tensor& cache = call.output(0);
  KvParams p = cache_params(cache, {}, launcher);
  p.x = call.input(0).data;
  p.row_slot = call.input(1).data;
  p.position = call.input(2).data;
  p.rows = static_cast<uint>(call.input(1).dims[0]);
  launcher.launch("kv_move", launcher.item_threads(), launcher.spread(std::int64_t{p.rows} * p.row_bytes / 2 * p.page * p.kv_heads), p,
                  {0});
}

std::string refuse_move(const Call& call) { return check_caches(call, {&call.input(1), &call.input(2), &call.input(3), &call.input(4)}); }
void emit_move(const Call& call, Launcher& launcher) {
  KvParams p = cache_params(call.output(0), call.input(1), launcher);
  p.row_slot = call.input(2).data;
  p.x = call.input(3).data;
  p.position = call.input(4).data;
  p.rows = static_cast<uint>(call.input(2).dims[0]);
  if (p.rows > 0) launcher.launch("kv_move", launcher.row_threads(std::int64_t{p.row_bytes} / 2 * p.kv_heads), {1, 1, 1}, p, {1});
}

constexpr Op attention_table[] = {
    offer(QUERN_OP_ATTENTION, "attention.vulkan", refuse_attention, emit_attention).with_turns(attention_turns),
    offer(QUERN_OP_KV_WRITE, "kv_write.vulkan", refuse_kv_write, emit_kv_write, nullptr, true),
    offer(QUERN_OP_KV_COPY, "kv_copy.vulkan", refuse_kv_copy, emit_kv_copy),
    offer(QUERN_OP_KV_MOVE, "kv_move.vulkan", refuse_move, emit_move),
};

}  // namespace

const std::span<const Op> attention_ops = attention_table;

}  // namespace quern::vulkan
