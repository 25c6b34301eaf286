// Single positions within sequences of a cache.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_kv_move(const Call& call) {
  return check_caches(call, {&call.input(1), &call.input(2), &call.input(3), &call.input(4)});
}
void emit_kv_move(const Call& call, Launcher& launcher) {
  KvParams p = cache_params(call.output(0), call.input(1), launcher);
  p.row_slot = call.input(2).data;
  p.x = call.input(3).data;
  p.position = call.input(4).data;
  p.rows = static_cast<uint>(call.input(2).dims[0]);
  if (p.rows > 0) launcher.launch("kv_move", launcher.row_threads(std::int64_t{p.row_bytes} / 2 * p.kv_heads), {1, 1, 1}, p, {1});
}

}  // namespace

const Op kv_move_op = offer(QUERN_OP_KV_MOVE, "kv_move.vulkan", refuse_kv_move, emit_kv_move);

}  // namespace quern::vulkan
