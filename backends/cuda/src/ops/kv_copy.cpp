// Whole pages within a cache.
#include "paged.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

std::string refuse_kv_copy(const Call& call) {
  return first_of({check_cache(call.output(0)), check_contiguous(call.input(1)), check_contiguous(call.input(2)),
                   check_one_predicate(call)});
}

void emit_kv_copy(const Call& call, Launcher& launcher) {
  const Tensor &cache = call.output(0), &from = call.input(1);
  const KvCopyParams p{view_of_cache(cache), from.data, call.input(2).data, live_of(call), launcher.faults()};
  const std::int64_t parts = std::min<std::int64_t>(64, p.cache.page * p.cache.vector_bytes / 2048 + 1);
  launcher.launch(kernels::kv_copy, {parts, from.dims[0], cache.dims[1]}, 256, p);
}

}  // namespace

const Op kv_copy_op{QUERN_OP_KV_COPY, "kv_copy.cuda", refuse_kv_copy, emit_kv_copy, nullptr, true};

}  // namespace quern::cuda
