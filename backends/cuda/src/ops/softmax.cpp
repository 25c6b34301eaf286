// softmax and its gradient; logsumexp, max, argmax along rows.
#include "../kernels/softmax.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_softmax(const Call& call) {
  const Tensor &x = call.input(0), &mask = call.input(1), &sinks = call.input(2), &y = call.output(0);
  if (x.rank < 1) return "softmax needs at least one dimension";
  if (std::string r = first_of({check_floats(x), check_floats(y), check_same_shape(x, y)}); !r.empty()) return r;
  if (mask.present() && (!broadcasts(mask, x) || (mask.dtype != QUERN_F32 && mask.dtype != QUERN_F16)))
    return concat(describe(mask), "; a mask is f32 or f16 and broadcasts to ", describe(x));
  const std::int64_t heads = x.rank > 2 ? x.dims[x.rank - 3] : 1;
  if (!sinks.present()) return {};
  return first_of({check_dtype(sinks, QUERN_F32), check_rank(sinks, 1), check_contiguous(sinks), check_dim(sinks, 0, heads)});
}

void emit_softmax(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  SoftmaxParams p{};
  p.rows = walk_rows(y, {{x, p.x}, {call.input(1), p.mask}, {y, p.y}});
  p.sinks = call.input(2).data;
  p.n = x.last();
  p.q = x.rank > 1 ? x.dims[x.rank - 2] : 1;
  p.heads = x.rank > 2 ? x.dims[x.rank - 3] : 1;
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(call.real(QUERN_KEY_SOFTCAP));
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  p.causal = call.integer(QUERN_KEY_CAUSAL) != 0;
  p.query_offset = call.integer(QUERN_KEY_QUERY_OFFSET);
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  launcher.launch(kernels::softmax, {p.rows.count, 1, 1}, 256, p);
}

std::string refuse_backward(const Call& call) {
  const Tensor &y = call.input(0), &dy = call.input(1), &dx = call.output(0);
  if (y.rank < 1) return "softmax_backward needs at least one dimension";
  return first_of({check_floats(y), check_floats(dy), check_floats(dx), check_same_shape(y, dy), check_same_shape(y, dx)});
}

void emit_backward(const Call& call, Launcher& launcher) {
  const Tensor& dx = call.output(0);
  SoftmaxBackwardParams p{};
  p.rows = walk_rows(dx, {{call.input(0), p.y}, {call.input(1), p.dy}, {dx, p.dx}});
  p.n = dx.last();
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  launcher.launch(kernels::softmax_backward, {p.rows.count, 1, 1}, 256, p);
}

std::string refuse_reduce(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.rank < 1 || y.rank + 1 != x.rank) return concat(describe(y), " has the dimensions of ", describe(x), " but the last");
  std::string reason = first_of({check_floats(x), call.op == QUERN_OP_ARGMAX ? check_dtype(y, QUERN_I32) : check_floats(y)});
  for (std::uint32_t d = 0; reason.empty() && d < y.rank; ++d) reason = check_dim(y, d, x.dims[d]);
  return reason;
}

void emit_reduce(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  Tensor y = call.output(0);  // as rows of one element
  y.dims[y.rank] = 1;
  y.strides[y.rank++] = 0;
  RowReduceParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {y, p.y}});
  p.n = x.last();
  const auto& kernel = call.op == QUERN_OP_ARGMAX ? kernels::argmax : call.op == QUERN_OP_MAX ? kernels::max_rows : kernels::logsumexp;
  launcher.launch(kernel, {p.rows.count, 1, 1}, p.n <= 64 ? 32 : p.n <= 4096 ? 256 : 1024, p);
}

constexpr Op table[] = {{QUERN_OP_SOFTMAX, "softmax.cuda", refuse_softmax, emit_softmax},
                        {QUERN_OP_SOFTMAX_BACKWARD, "softmax_backward.cuda", refuse_backward, emit_backward},
                        {QUERN_OP_ARGMAX, "argmax.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_MAX, "max.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_LOGSUMEXP, "logsumexp.cuda", refuse_reduce, emit_reduce}};

}  // namespace

const std::span<const Op> softmax_ops = table;

}  // namespace quern::cuda
