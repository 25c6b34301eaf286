// y = alpha * a b^T + bias + beta * c.
#include "quern/graph/ops/matmul.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "quern/graph/ops/copy.hpp"

#include <algorithm>
#include <utility>

namespace quern::graph {
namespace ops {

ValueId matmul(Graph& graph, ValueId a, ValueId b, ValueId bias, ValueId c, const MatmulAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_MATMUL, {a, b, bias, c},
                        Attributes()
                            .set(QUERN_KEY_TRANSPOSE_A, how.transpose_a)
                            .set(QUERN_KEY_TRANSPOSE_B, how.transpose_b)
                            .set(QUERN_KEY_ALPHA, how.alpha)
                            .set(QUERN_KEY_BETA, how.beta),
                        std::move(options))[0];
}

ValueId matmul(Graph& graph, ValueId a, ValueId b, NodeOptions options) {
  return graph.add_node(QUERN_OP_MATMUL, {a, b}, {}, std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

/// Each leading dimension of b divides that of a, which then repeats it for whole groups.
void leading_rule(const OpCall& call) {
  if (call.rank(1) > call.rank(0)) call.fail(call.text(0), " but ", call.text(1), ": b may not have more dimensions than a");
  for (std::size_t d = 0; d + 2 < call.rank(1); ++d) {
    const std::size_t e = d + call.rank(0) - call.rank(1);
    const Dim& a = call.dim(0, e);
    const Dim& b = call.dim(1, d);
    const bool divides = a.symbol == 0 && b.symbol == 0 && b.size > 0 && a.size % b.size == 0;
    if (a != b && b != Dim(1) && !divides)
      call.fail(call.text(0), " but ", call.text(1), ": dimension ", d, " of b must divide dimension ", e, " of a");
  }
}

}  // namespace

void matmul(OpCall& call) {
  call.dtype(0, floats);
  call.dtype(1, weight_types);
  call.rank_at_least(0, 2);
  call.rank_at_least(1, 2);
  call.flag(QUERN_KEY_TRANSPOSE_A);
  call.flag(QUERN_KEY_TRANSPOSE_B);
  call.finite(QUERN_KEY_ALPHA);
  call.finite(QUERN_KEY_BETA);
  const bool transpose_a = call.integer(QUERN_KEY_TRANSPOSE_A) != 0;
  const bool transpose_b = call.integer(QUERN_KEY_TRANSPOSE_B) != 0;
  const std::size_t a_rows = call.rank(0) - 2, a_columns = call.rank(0) - 1;
  const std::size_t b_rows = call.rank(1) - 2, b_columns = call.rank(1) - 1;
  const Dim m = call.dim(0, transpose_a ? a_columns : a_rows);
  const Dim n = call.dim(1, transpose_b ? b_columns : b_rows);
  call.same_dim(0, transpose_a ? a_rows : a_columns, 1, transpose_b ? b_rows : b_columns);
  leading_rule(call);
  Shape y(call.shape(0).begin(), call.shape(0).end() - 2);
  y.push_back(m);
  y.push_back(n);
  const quern_dtype dtype = call.out_dtype(call.in(0).dtype, floats);
  call.dtype(2, f32_only);
  call.shape_is(2, {n});
  call.shape_is(3, y);
  call.dtype(3, {dtype});
  call.out(0, dtype, std::move(y));
}

}  // namespace rules

namespace gradients {

namespace {

/// sum + alpha dy b for b of a block format, decoded so many rows at a time.
ValueId of_a_by_parts(GradientCall& call, ValueId b, std::int64_t rows, ValueId sum) {
  Graph& graph = call.graph();
  const Shape whole = graph.value(b).shape, dy_shape = graph.value(call.dy()).shape;
  const quern_dtype b_dtype = graph.value(b).dtype, dtype = graph.value(call.dy()).dtype;
  const std::vector<std::int64_t> strides = graph.strides(call.dy());
  const ops::MatmulAttributes how{.transpose_b = true, .alpha = call.number(QUERN_KEY_ALPHA)};
  if (sum != no_value) sum = call.as(sum, QUERN_F32);
  for (std::int64_t first = 0; first < whole[0].size; first += rows) {
    const Dim count(std::min(rows, whole[0].size - first));
    const ValueId part = call.as(graph.view(b, {count, whole[1]}, {}, byte_size(b_dtype, {Dim(first), whole[1]})), dtype);
    Shape columns = dy_shape;
    columns.back() = count;
    const ValueId dy = graph.view(call.dy(), columns, strides, static_cast<std::uint64_t>(first * strides.back()));
    sum = ops::matmul(graph, dy, part, no_value, sum, how, call.how(QUERN_F32));
  }
  return call.as(sum, call.sum_dtype(0));
}

/// How many rows of b are decoded at a time: all of them, or even parts within the limit, whose rows keep them aligned.
std::int64_t rows_decoded(GradientCall& call, ValueId b) {
  constexpr std::int64_t step = 256;
  const Value& value = call.graph().value(b);
  const std::int64_t rows = value.shape[0].size;
  if (value.shape.size() != 2 || !value.strides.empty() || call.integer(QUERN_KEY_TRANSPOSE_A) != 0) return rows;
  const std::uint64_t bytes = byte_size(call.graph().value(call.dy()).dtype, value.shape), most = call.options().decoded_bytes;
  if (bytes <= most) return rows;
  const auto parts = static_cast<std::int64_t>(std::min(bytes / most + 1, static_cast<std::uint64_t>(rows)));
  return (rows / parts / step + 1) * step;
}

/// Gives da = alpha dy b in the layout of a, added to what other uses of a gave before.
void give_a(GradientCall& call) {
  Graph& graph = call.graph();
  const bool across = call.integer(QUERN_KEY_TRANSPOSE_A) != 0;  // da is made transposed
  const ValueId sum = across ? no_value : call.partial(0);
  ValueId b = call.in(1);
  const bool turned = call.integer(QUERN_KEY_TRANSPOSE_B) == 0;  // as its gradient reads b
  if (is_block_format(call.dtype(1)) && turned && !call.options().may_use.turned_blocks) {
    if (const std::int64_t rows = rows_decoded(call, b); rows < graph.value(b).shape[0].size)
      return call.give_sum(0, of_a_by_parts(call, b, rows, sum));
    b = call.as(b, graph.value(call.dy()).dtype);
  }
  const ops::MatmulAttributes how{.transpose_b = turned, .alpha = call.number(QUERN_KEY_ALPHA)};
  const ValueId da = ops::matmul(graph, call.dy(), b, no_value, sum, how, call.how(call.sum_dtype(0)));
  if (!across) return call.give_sum(0, da);
  std::vector<std::int64_t> strides = graph.strides(da);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  call.give(0, graph.view(da, call.shape(0), strides, 0));
}

/// Rows of all leading dimensions under each other: [..., m, n] as [rows, n]. Empty where that is no reshape.
Shape flat(const Shape& shape) {
  Dim rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    if (rows == Dim(1)) rows = shape[d];
    else if (rows.symbol == 0 && shape[d].symbol == 0) rows = Dim(rows.size * shape[d].size);
    else if (shape[d] != Dim(1)) return {};
  }
  return {rows, shape.back()};
}

/// The gradient of b in each batch of a, summed over the batches that read one b.
ValueId summed_over_groups(GradientCall& call, ValueId db, const Shape& a) {
  const Shape b = call.shape(1);
  Shape split, kept;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const std::size_t behind = a.size() - d;
    const Dim of_b = behind > b.size() ? Dim(1) : b[b.size() - behind];
    if (behind <= 2 || of_b == a[d] || of_b == Dim(1)) {
      split.push_back(behind <= 2 ? of_b : a[d]), kept.push_back(of_b);
    } else {
      // Neighbours in a share one of b.
      split.push_back(of_b), split.push_back(Dim(a[d].size / of_b.size));
      kept.push_back(of_b), kept.push_back(Dim(1));
    }
  }
  if (split.size() > QUERN_MAX_DIMS) call.fail("the groups of its input b need ", split.size(), " dimensions for their gradient");
  return call.reshaped(ops::sum_to(call.graph(), call.reshaped(db, split), kept, call.how()), b);
}

/// db = alpha dy^T a in the layout of b.
ValueId of_b(GradientCall& call) {
  Graph& graph = call.graph();
  const bool transpose_a = call.integer(QUERN_KEY_TRANSPOSE_A) != 0, transpose_b = call.integer(QUERN_KEY_TRANSPOSE_B) != 0;
  ValueId a = call.in(0), dy = call.dy();
  const Shape whole = call.shape(0);
  // One matrix for all rows: a product over all of them, without sums of batches.
  const Shape a_rows = flat(whole), dy_rows = flat(graph.value(dy).shape);
  const bool one = whole.size() > 2 && call.shape(1).size() == 2 && !transpose_a && !a_rows.empty() && !dy_rows.empty() &&
                   graph.value(a).strides.empty();
  if (one) a = call.reshaped(a, a_rows), dy = call.reshaped(dy, dy_rows);
  const double alpha = call.number(QUERN_KEY_ALPHA);
  // What is summed over groups is rounded once, behind the sum.
  const Shape b_shape = call.shape(1);
  const bool grouped = !one && !(b_shape.size() == whole.size() && std::equal(whole.begin(), whole.end() - 2, b_shape.begin()));
  NodeOptions how = call.how(grouped ? QUERN_F32 : call.sum_dtype(1));
  const ValueId into = call.options().may_use.sums_in_place && !grouped ? call.into(1) : no_value;
  if (into != no_value) how.outputs = {into};
  // [n, k] = dy^T a, or [k, n] = a^T dy.
  const ValueId db =
      transpose_b ? ops::matmul(graph, a, dy, no_value, into, {.transpose_a = !transpose_a, .transpose_b = true, .alpha = alpha}, how)
                  : ops::matmul(graph, dy, a, no_value, into, {.transpose_a = true, .transpose_b = !transpose_a, .alpha = alpha}, how);
  return grouped ? summed_over_groups(call, db, whole) : db;
}

}  // namespace

void matmul(GradientCall& call) {
  constexpr std::size_t a = 0, b = 1, bias = 2, c = 3;
  if (call.wants(a)) give_a(call);
  if (call.wants(b)) call.give(b, of_b(call));
  if (call.wants(bias)) call.give(bias, call.summed(call.as(call.dy(), QUERN_F32), bias));
  if (!call.wants(c)) return;
  const double beta = call.number(QUERN_KEY_BETA);
  call.give(c, beta == 1 ? call.dy() : ops::scale(call.graph(), call.dy(), beta, 0, call.how()));
}

}  // namespace gradients
}  // namespace quern::graph
