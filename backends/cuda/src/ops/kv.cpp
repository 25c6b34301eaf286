// kv_write, kv_copy, kv_move.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_write(const Call& call) { return check_pages(call.output(0), call.input(1), call.input(2), call.input(3)); }

void emit_write(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &cache = call.output(0);
  const KvWriteParams p{heads_of(x), view_of_cache(cache), table_of(cache, call.input(1), call.input(2), call.input(3)), live_of(call),
                        launcher.faults()};
  launcher.launch(kernels::kv_write, {x.dims[1], x.dims[0], 1}, 128, p);
}

std::string one_predicate(const Call& call) {
  return call.predicate.elements() == 1 ? "" : "entries of a cache have no rows of their own: the predicate is one number";
}

std::string refuse_copy(const Call& call) {
  return first_of({check_cache(call.output(0)), check_contiguous(call.input(1)), check_contiguous(call.input(2)), one_predicate(call)});
}

void emit_copy(const Call& call, Launcher& launcher) {
  const Tensor &cache = call.output(0), &from = call.input(1);
  const KvCopyParams p{view_of_cache(cache), from.data, call.input(2).data, live_of(call), launcher.faults()};
  const std::int64_t parts = std::min<std::int64_t>(64, p.cache.page * p.cache.vector_bytes / 2048 + 1);
  launcher.launch(kernels::kv_copy, {parts, from.dims[0], cache.dims[1]}, 256, p);
}

std::string refuse_move(const Call& call) {
  return first_of({check_pages(call.output(0), call.input(1), call.input(2), call.input(3)), check_contiguous(call.input(4)),
                   one_predicate(call)});
}

void emit_move(const Call& call, Launcher& launcher) {
  const Tensor &cache = call.output(0), &slot = call.input(2);
  const KvMoveParams p{view_of_cache(cache), table_of(cache, call.input(1), slot, call.input(3)),
                       call.input(4).data,   static_cast<int>(slot.dims[0]),
                       live_of(call),        launcher.faults()};
  launcher.launch(kernels::kv_move, {cache.dims[1], 1, 1}, 128, p);
}

/// Fused kernels take keys and values whose heads lie side by side, in rows that may be longer.
bool fusable_write(const Call& call) {
  const Tensor &x = call.input(0), &cache = call.output(0);
  const bool heads_packed = x.strides[2] == 4 && x.strides[1] == 4 * x.dims[2];
  return heads_packed && check_contiguous(call.input(1)).empty() && check_contiguous(call.input(2)).empty() &&
         check_contiguous(call.input(3)).empty() && check_contiguous(cache).empty();
}

constexpr Op table[] = {{QUERN_OP_KV_WRITE, "kv_write.cuda", refuse_write, emit_write, nullptr, true, fusable_write},
                        {QUERN_OP_KV_COPY, "kv_copy.cuda", refuse_copy, emit_copy, nullptr, true},
                        {QUERN_OP_KV_MOVE, "kv_move.cuda", refuse_move, emit_move, nullptr, true}};

}  // namespace

const std::span<const Op> kv_ops = table;

}  // namespace quern::cuda
