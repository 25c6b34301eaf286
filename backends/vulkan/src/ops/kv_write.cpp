// Keys or values of rows to the pages of their sequences.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

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

}  // namespace

const Op kv_write_op = offer(QUERN_OP_KV_WRITE, "kv_write.vulkan", refuse_kv_write, emit_kv_write, nullptr, true);

}  // namespace quern::vulkan
