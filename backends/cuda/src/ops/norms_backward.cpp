// Gradients of norms. See norms.hpp.
#include "norms.hpp"

#include "../kernels/norm.hpp"
#include "strided.hpp"

namespace quern::cuda {
namespace {

bool is_l2(const Call& call) { return call.op == QUERN_OP_L2_NORM_BACKWARD; }
const Tensor& gradient_of(const Call& call) { return call.input(is_l2(call) ? 1 : 2); }
bool sums_rows(const Call& call) { return call.output(1).present() || call.output(2).present(); }
std::int64_t most_splits(const Call& call) {
  const Tensor& x = call.input(0);
  return std::clamp<std::int64_t>(512 * 32 / std::max<std::int64_t>(1, x.last()), 1, std::max<std::int64_t>(1, x.rows() / 64));
}
std::uint64_t stats_bytes(const Call& call) { return static_cast<std::uint64_t>(call.input(0).rows()) * 16; }

}  // namespace

std::string refuse_norm_backward(const Call& call) {
  const Tensor& x = call.input(0);
  if (is_l2(call)) return {};
  if (call.predicate.elements() != 1 && x.rank < 2) return concat(describe(x), " is one row; its predicate is one number");
  return first_of({check_contiguous(call.input(1)), check_contiguous(call.output(1)), check_contiguous(call.output(2))});
}

std::uint64_t scratch_norm_backward(const Call& call) {
  return sums_rows(call) ? stats_bytes(call) + static_cast<std::uint64_t>(most_splits(call) * call.input(0).last()) * 16 : 0;
}

void emit_norm_backward(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &dy = gradient_of(call);
  NormBackwardParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {dy, p.dy}, {call.output(0), p.dx}});
  p.weight = is_l2(call) ? 0 : call.input(1).data;
  p.kind = norm_kind(call.op);
  p.h = x.last();
  p.epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  p.offset = call.op == QUERN_OP_RMS_NORM_BACKWARD ? static_cast<float>(call.real(QUERN_KEY_WEIGHT_OFFSET)) : 0.0f;
  p.live = live_of(call);
  p.rows_a_live = x.rank < 2 || x.dims[0] == 0 ? 1 : std::max<std::int64_t>(1, p.rows.count / x.dims[0]);
  const unsigned threads = p.h > 128 ? 256 : 32;
  if (sums_rows(call)) {
    p.dweight = call.output(1).data;
    p.dbias = call.output(2).data;
    p.accumulate = call.integer(QUERN_KEY_ACCUMULATE) != 0;
    p.splits = static_cast<int>(most_splits(call));
    p.stats = call.scratch;
    p.parts = call.scratch + stats_bytes(call);
    p.first_pass = 1;
    launcher.launch(kernels::norm_backward_rows, {p.rows.count, 1, 1}, threads, p);
    launcher.launch(kernels::norm_backward_sums, {(p.h + 31) / 32, p.splits, 1}, 256, p);
    launcher.launch(kernels::norm_backward_totals, launcher.spread(2 * p.h), 256, p);
    p.first_pass = 0;
  }
  launcher.launch(kernels::norm_backward_rows, {p.rows.count, 1, 1}, threads, p);
}

}  // namespace quern::cuda
