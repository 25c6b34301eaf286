// kv_write and kv_copy.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_write(const Call& call) {
  const Tensor &x = call.input(0), &cache = call.output(0);
  if (std::string r = first_of({check_floats(x), check_rank(x, 3), check_packed(x)}); !r.empty()) return r;
  if (std::string r = check_pages(cache, call.input(1), call.input(2), call.input(3), x.dims[0]); !r.empty()) return r;
  return first_of({check_dim(x, 1, cache.dims[1]), check_dim(x, 2, cache.dims[3])});
}

void emit_write(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  const KvWriteParams p{x.data, static_cast<int>(x.dtype),
                        pages_of(call.output(0), call.input(1), call.input(2), call.input(3)), x.dims[0],
                        launcher.faults()};
  launcher.launch("kv", "kv_write", {x.dims[1], x.dims[0], 1}, 128, p);
}

std::string refuse_copy(const Call& call) {
  const Tensor &cache = call.output(0), &from = call.input(1), &to = call.input(2);
  return first_of({check_packed(cache), check_rank(cache, 4), check_dtype(from, QUERN_I32),
                   check_rank(from, 1), check_packed(from), check_dtype(to, QUERN_I32), check_packed(to),
                   check_same(from, to)});
}

void emit_copy(const Call& call, Launcher& launcher) {
  const Tensor &cache = call.output(0), &from = call.input(1);
  const auto page = static_cast<std::int64_t>(sdk::element_size(cache.dtype).bytes) *
                    (cache.elements() / static_cast<std::int64_t>(sdk::element_size(cache.dtype).elements)) /
                    cache.dims[0];
  const KvCopyParams p{cache.data,
                       from.data,
                       call.input(2).data,
                       page,
                       static_cast<int>(cache.dims[0]),
                       static_cast<int>(from.dims[0]),
                       launcher.faults()};
  launcher.launch("kv", "kv_copy", {std::min<std::int64_t>(64, page / 512 + 1), from.dims[0], 1}, 256, p);
}

constexpr Op table[] = {{QUERN_OP_KV_WRITE, "kv_write.cuda", refuse_write, emit_write},
                        {QUERN_OP_KV_COPY, "kv_copy.cuda", refuse_copy, emit_copy}};

}  // namespace

const std::span<const Op> kv_ops = table;

}  // namespace quern::cuda
