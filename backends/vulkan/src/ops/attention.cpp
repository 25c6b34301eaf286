// Attention over paged keys.
#include "attention.hpp"
#include "paged.hpp"
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

}  // namespace

const Op attention_op = offer(QUERN_OP_ATTENTION, "attention.vulkan", refuse_attention, emit_attention).with_turns(attention_turns);

}  // namespace quern::vulkan
