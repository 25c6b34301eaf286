// Keys or values of rows to the pages of their sequences.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_kv_write(const Call& call) { return check_pages(call.output(0), call.input(1), call.input(2), call.input(3)); }

void emit_kv_write(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &cache = call.output(0);
  const KvWriteParams p{heads_of(x), view_of_cache(cache), table_of(cache, call.input(1), call.input(2), call.input(3)), live_of(call),
                        launcher.faults()};
  launcher.launch(kernels::kv_write, {x.dims[1], x.dims[0], 1}, 128, p);
}

/// Fused kernels take keys and values whose heads lie side by side, in rows that may be longer.
bool fusable_kv_write(const Call& call) {
  const Tensor &x = call.input(0), &cache = call.output(0);
  const bool heads_packed = x.strides[2] == 4 && x.strides[1] == 4 * x.dims[2];
  return heads_packed && check_contiguous(call.input(1)).empty() && check_contiguous(call.input(2)).empty() &&
         check_contiguous(call.input(3)).empty() && check_contiguous(cache).empty();
}

}  // namespace

const Op kv_write_op{QUERN_OP_KV_WRITE, "kv_write.cuda", refuse_kv_write, emit_kv_write, nullptr, true, fusable_kv_write};

}  // namespace quern::cuda
