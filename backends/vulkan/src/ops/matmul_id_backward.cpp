// Gradients of matmul_id.
#include "expert_view.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

#include <algorithm>

namespace quern::vulkan {
namespace {

std::string refuse_matmul_id_backward(const Call& call) {
  const Tensor &dy = call.input(0), &a = call.input(1);
  const bool large = dy.dims[2] * a.dims[2] >= std::int64_t{1} << 30 || a.elements() >= std::int64_t{1} << 31;
  return large ? "a matrix of an expert has fewer than 2^30 elements" : "";
}
void emit_matmul_id_backward(const Call& call, Launcher& launcher) {
  const Tensor &dy = call.input(0), &a = call.input(1), &b = call.input(2), &id = call.input(3), &da = call.output(0), &db = call.output(1);
  ExpertsBackwardParams p{};
  p.dy = expert_view(dy);
  p.a = expert_view(a);
  p.b = expert_view(b);
  p.da = expert_view(da);
  p.db = expert_view(db);
  p.id = id.data;
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.id_row = id.strides[0];
  p.id_step = static_cast<int>(id.strides[1]);
  p.tokens = static_cast<uint>(dy.dims[0]);
  p.used = static_cast<uint>(dy.dims[1]);
  p.n = static_cast<uint>(dy.dims[2]);
  p.k = static_cast<uint>(a.dims[2]);
  p.experts = static_cast<int>(b.present() ? b.dims[0] : db.dims[0]);
  p.shared_rows = a.dims[1] == 1 ? 1 : 0;
  p.accumulate = call.flag(QUERN_KEY_ACCUMULATE) ? 1 : 0;
  if (da.present()) launcher.launch("experts_backward", launcher.item_threads(), launcher.spread(da.elements()), p, {experts_da, 0});
  if (!db.present()) return;
  const std::int64_t matrix = std::max<std::int64_t>(1, dy.dims[2] * a.dims[2]), experts = db.dims[0];
  for (std::int64_t done = 0; done < experts;) {  // an item an element: fewer than 2^31 of them
    const std::int64_t slice = std::min(experts - done, std::max<std::int64_t>(1, (std::int64_t{1} << 30) / matrix));
    p.first_expert = static_cast<uint>(done);
    p.slice = static_cast<uint>(slice);
    launcher.launch("experts_backward", launcher.item_threads(), launcher.spread(slice * matrix), p, {experts_db, 0});
    done += slice;
  }
}

}  // namespace

const Op matmul_id_backward_op =
    offer(QUERN_OP_MATMUL_ID_BACKWARD, "matmul_id_backward.vulkan", refuse_matmul_id_backward, emit_matmul_id_backward, nullptr, true);

}  // namespace quern::vulkan
