// Single positions within sequences of a cache.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_kv_move(const Call& call) {
  return first_of({check_pages(call.output(0), call.input(1), call.input(2), call.input(3)), check_contiguous(call.input(4)),
                   check_one_predicate(call)});
}

void emit_kv_move(const Call& call, Launcher& launcher) {
  const Tensor &cache = call.output(0), &slot = call.input(2);
  const KvMoveParams p{view_of_cache(cache), table_of(cache, call.input(1), slot, call.input(3)),
                       call.input(4).data,   static_cast<int>(slot.dims[0]),
                       live_of(call),        launcher.faults()};
  launcher.launch(kernels::kv_move, {cache.dims[1], 1, 1}, 128, p);
}

}  // namespace

const Op kv_move_op{QUERN_OP_KV_MOVE, "kv_move.cuda", refuse_kv_move, emit_kv_move, nullptr, true};

}  // namespace quern::cuda
