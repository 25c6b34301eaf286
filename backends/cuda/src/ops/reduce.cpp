// softmax; argmax, max, logsumexp, sum_rows along rows; sum, mean, norm of all elements.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_softmax(const Call& call) {
  const Tensor &x = call.input(0), &mask = call.input(1), &sinks = call.input(2), &y = call.output(0);
  if (x.rank < 1) return "softmax needs at least one dimension";
  if (std::string r = first_of({check_floats(x), check_floats(y), check_same(x, y)}); !r.empty()) return r;
  if (mask.present() && (!broadcasts(mask, x) || (mask.dtype != QUERN_F32 && mask.dtype != QUERN_F16) || mask.last() != x.last()))
    return concat(describe(mask), "; a mask is f32 or f16 and broadcasts to ", describe(x));
  const std::int64_t heads = x.rank > 2 ? x.dims[x.rank - 3] : 1;
  if (sinks.present())
    return first_of({check_dtype(sinks, QUERN_F32), check_rank(sinks, 1), check_packed(sinks),
                     check_dim(sinks, 0, heads)});
  return {};
}

void emit_softmax(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  SoftmaxParams p{};
  p.x = view_of(x);
  p.mask = view_of(call.input(1));
  p.y = view_of(y);
  p.sinks = call.input(2).data;
  p.rows = x.rows();
  p.k = x.last();
  p.q = x.rank > 1 ? x.dims[x.rank - 2] : 1;
  p.heads = x.rank > 2 ? x.dims[x.rank - 3] : 1;
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(call.real(QUERN_KEY_SOFTCAP));
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  p.causal = call.integer(QUERN_KEY_CAUSAL) != 0;
  p.query_offset = static_cast<int>(call.integer(QUERN_KEY_QUERY_OFFSET));
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  launcher.launch("reduce", "softmax", {p.rows, 1, 1}, 256, p);
}

int reduction(std::uint32_t op) {
  switch (op) {
    case QUERN_OP_MAX: return 0;
    case QUERN_OP_LOGSUMEXP: return 2;
    case QUERN_OP_ARGMAX: return 3;
    case QUERN_OP_NORM: return 4;
    case QUERN_OP_MEAN: return 5;
    default: return 1;
  }
}
bool whole(std::uint32_t op) { return op == QUERN_OP_SUM || op == QUERN_OP_MEAN || op == QUERN_OP_NORM; }

std::string refuse_reduce(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.rank < 1) return "a reduction needs at least one dimension";
  const std::int64_t wanted = whole(call.op) ? 1 : x.rows();
  if (y.elements() != wanted) return concat(describe(y), " has ", y.elements(), " elements; ", wanted, " come out of ", describe(x));
  if ((x.ranged >> (x.rank - 1) & 1u) != 0) return concat(describe(x), ": rows of a ranged length are not reduced here");
  return first_of({check_floats(x), check_packed(x), check_packed(y),
                   call.op == QUERN_OP_ARGMAX ? check_dtype(y, QUERN_I32) : check_floats(y)});
}

void emit_reduce(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  const std::int64_t rows = whole(call.op) ? 1 : x.rows(), n = whole(call.op) ? x.elements() : x.last();
  const ReduceParams p{view_of(x), view_of(call.output(0)), reduction(call.op), rows, n};
  launcher.launch("reduce", "reduce_rows", {rows, 1, 1}, 1024, p);
}

constexpr Op table[] = {{QUERN_OP_SOFTMAX, "softmax.cuda", refuse_softmax, emit_softmax},
                        {QUERN_OP_ARGMAX, "argmax.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_MAX, "max.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_LOGSUMEXP, "logsumexp.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_SUM_ROWS, "sum_rows.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_SUM, "sum.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_MEAN, "mean.cuda", refuse_reduce, emit_reduce},
                        {QUERN_OP_NORM, "norm.cuda", refuse_reduce, emit_reduce}};

}  // namespace

const std::span<const Op> reduce_ops = table;

}  // namespace quern::cuda
