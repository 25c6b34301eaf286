// Products with the weights of chosen experts, an output a subgroup. Kernel: matmul.
#include "matmul_rows.hpp"
#include "matmul_tiles.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

std::string refuse_matmul_id(const Call& call) {
  return first_of({check_contiguous(call.input(2)), sdk::check_packed_rows(call.input(0)), sdk::check_packed_rows(call.input(1))});
}
void emit_matmul_id(const Call& call, Launcher& launcher) {
  const Tensor &a = call.input(0), &b = call.input(1), &id = call.input(2), &y = call.output(0);
  MatmulParams p{};
  p.a = a.data;
  p.b = b.data;
  p.ids = id.data;
  p.y = y.data;
  p.faults = launcher.faults();
  p.m = static_cast<uint>(id.elements());
  p.n = static_cast<uint>(b.dims[1]);
  p.k = static_cast<uint>(b.dims[2]);
  p.batch = 1;
  std::fill_n(p.batch_dims, most_leading, 1u);
  std::fill_n(p.group, most_leading, 1u);
  p.used = static_cast<int>(std::max<std::int64_t>(1, id.dims[1]));
  p.a_row = a.strides[0];
  p.a_step = a.dims[1] == 1 ? 0 : a.strides[1];
  p.b_expert = b.strides[0];
  p.b_row = b.strides[1];
  p.y_row = y.strides[0];
  p.c_row = y.strides[1];
  p.y_step = static_cast<int>(y.strides[2]);
  p.y_dtype = static_cast<int>(y.dtype);
  p.experts = static_cast<int>(b.dims[0]);
  p.alpha = 1;
  launch_matmul_rows(p, a, b, 1, true, launcher);
}

}  // namespace

const Op matmul_id_op = offer(QUERN_OP_MATMUL_ID, "matmul_id.vulkan", refuse_matmul_id, emit_matmul_id);

}  // namespace quern::vulkan
