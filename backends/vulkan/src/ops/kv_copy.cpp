// Whole pages within a cache.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

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

}  // namespace

const Op kv_copy_op = offer(QUERN_OP_KV_COPY, "kv_copy.vulkan", refuse_kv_copy, emit_kv_copy);

}  // namespace quern::vulkan
