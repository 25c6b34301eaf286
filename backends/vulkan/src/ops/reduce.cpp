// softmax and its gradient; reductions of rows and of whole tensors; argmax.
#include "elementwise.hpp"
#include "tables.hpp"

#include <algorithm>
#include <limits>

namespace quern::vulkan {
namespace {

constexpr std::int32_t max_row = 0, sum_row = 1, log_sum_exp = 2, argmax_row = 3, all = 4, finish = 5, count_equal = 6, finish_count = 7;
constexpr std::int64_t partials_a_part = 256, most_reduced_parts = 64;

/// y with a last dim of 1, so that its leading dims are those of x.
Tensor beside_rows(const Tensor& y, const Tensor& x) {
  Tensor t = y;
  if (t.rank < x.rank) {
    t.dims[t.rank] = 1;
    t.strides[t.rank++] = 0;
  }
  return t;
}

void emit_rows(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), y = beside_rows(call.output(0), x);
  const std::int32_t op = call.op == QUERN_OP_MAX        ? max_row
                          : call.op == QUERN_OP_SUM_ROWS ? sum_row
                          : call.op == QUERN_OP_ARGMAX   ? argmax_row
                                                         : log_sum_exp;
  for_each_row_part(x, {&x, &y}, [&](const Shape& rows, const View* v) {
    RowParams p{};
    p.rows = rows;
    p.x = v[0];
    p.y = v[1];
    p.n = static_cast<uint>(x.last());
    p.predicate = call.predicate.data;
    p.rows_a_predicate = std::max<uint>(1, x.rank < 2 || x.dims[0] == 0 ? 1 : static_cast<uint>(x.rows() / x.dims[0]));
    launcher.launch("reduce", launcher.row_threads(x.last()), launcher.rows(rows.count), p, {op});
  });
}

void emit_cumsum(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  for_each_row_part(x, {&x, &y}, [&](const Shape& rows, const View* v) {
    RowParams p{};
    p.rows = rows;
    p.x = v[0];
    p.y = v[1];
    p.n = static_cast<uint>(x.last());
    launcher.launch("cumsum", launcher.row_threads(x.last()), launcher.rows(rows.count), p);
  });
}

std::string refuse_all(const Call& call) {
  const Tensor& x = call.input(0);
  const int bits = call.op == QUERN_OP_COUNT_EQUAL ? 31 : 35;  // the count is one of 32 bits; of sums a part has 2^29 elements
  static_assert(most_reduced_parts << 29 == std::int64_t{1} << 35);
  return x.elements() >= std::int64_t{1} << bits ? concat(describe(x), "; fewer than 2^", bits, " elements are taken") : "";
}
std::uint64_t scratch_all(const Call&) { return most_reduced_parts * partials_a_part * 4; }

void emit_all(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &b = call.op == QUERN_OP_COUNT_EQUAL ? call.input(1) : x;
  const Tensor one = beside_rows(call.output(0), x);
  RowParams last{};
  last.partial = call.scratch;
  last.y.data = one.data;
  last.y.dtype = static_cast<int>(one.dtype);
  last.count = static_cast<float>(x.elements());
  last.mode = call.op == QUERN_OP_NORM ? 1 : call.op == QUERN_OP_MEAN ? 2 : 0;
  const bool counts = call.op == QUERN_OP_COUNT_EQUAL;
  if (counts) {
    Tensor word;
    word.data = call.scratch;
    word.dtype = QUERN_I32;
    fill_view(word, 0, launcher);
    launcher.barrier();
  }
  for_each_part(x, {&x, &b}, [&](const Shape& shape, const View* v) {
    RowParams p{};
    p.rows = shape;
    p.x = v[0];
    p.b = v[1];
    p.mode = last.mode == 1 ? 1 : 0;
    p.partial = call.scratch + (counts ? 0 : std::uint64_t{last.n} * 4);
    Launcher::Grid grid = launcher.spread(shape.count);
    grid.x = std::min(grid.x, partials_a_part);
    last.n += static_cast<uint>(grid.x);
    launcher.launch("reduce", launcher.item_threads(), grid, p, {counts ? count_equal : all});
  });
  launcher.barrier();
  launcher.launch("reduce", launcher.row_threads(last.n), {1, 1, 1}, last, {counts ? finish_count : finish});
}

void emit_softmax(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &mask = call.input(1), &sinks = call.input(2), &y = call.output(0);
  for_each_row_part(x, {&x, &mask, &y}, [&](const Shape& rows, const View* v) {
    SoftmaxParams p{};
    p.rows = rows;
    p.x = v[0];
    p.mask = v[1];
    p.y = v[2];
    p.sinks = sinks.data;
    p.sink_dtype = static_cast<int>(sinks.dtype);
    p.sink_step = static_cast<int>(sinks.strides[0]);
    constexpr std::int64_t far = std::int64_t{1} << 40;
    p.query_offset = std::clamp(call.integer(QUERN_KEY_QUERY_OFFSET), -far, far);
    p.n = static_cast<uint>(x.last());
    p.queries = static_cast<uint>(x.dim_from_end(1));
    p.heads = static_cast<uint>(x.dim_from_end(2));
    p.scale = call.number(QUERN_KEY_SCALE);
    p.softcap = call.number(QUERN_KEY_SOFTCAP);
    p.max_bias = call.number(QUERN_KEY_MAX_BIAS);
    p.causal = call.flag(QUERN_KEY_CAUSAL) ? 1 : 0;
    p.window = static_cast<int>(std::min<std::int64_t>(call.integer(QUERN_KEY_WINDOW), std::numeric_limits<int>::max()));
    launcher.launch("softmax", launcher.row_threads(x.last()), launcher.rows(rows.count), p, {0});
  });
}

void emit_softmax_backward(const Call& call, Launcher& launcher) {
  const Tensor &y = call.input(0), &dy = call.input(1), &dx = call.output(0);
  for_each_row_part(y, {&y, &dy, &dx}, [&](const Shape& rows, const View* v) {
    SoftmaxParams p{};
    p.rows = rows;
    p.x = v[0];
    p.mask = v[1];
    p.y = v[2];
    p.n = static_cast<uint>(y.last());
    p.scale = call.number(QUERN_KEY_SCALE);
    launcher.launch("softmax", launcher.row_threads(y.last()), launcher.rows(rows.count), p, {1});
  });
}

constexpr Op reduce_table[] = {
    offer(QUERN_OP_SOFTMAX, "softmax.vulkan", nullptr, emit_softmax),
    offer(QUERN_OP_SOFTMAX_BACKWARD, "softmax_backward.vulkan", nullptr, emit_softmax_backward),
    offer(QUERN_OP_LOGSUMEXP, "logsumexp.vulkan", nullptr, emit_rows),
    offer(QUERN_OP_MAX, "max.vulkan", nullptr, emit_rows),
    offer(QUERN_OP_SUM_ROWS, "sum_rows.vulkan", nullptr, emit_rows),
    offer(QUERN_OP_ARGMAX, "argmax.vulkan", nullptr, emit_rows, nullptr, true),
    offer(QUERN_OP_CUMSUM, "cumsum.vulkan", nullptr, emit_cumsum),
    offer(QUERN_OP_SUM, "sum.vulkan", refuse_all, emit_all, scratch_all),
    offer(QUERN_OP_MEAN, "mean.vulkan", refuse_all, emit_all, scratch_all),
    offer(QUERN_OP_NORM, "norm.vulkan", refuse_all, emit_all, scratch_all),
    offer(QUERN_OP_COUNT_EQUAL, "count_equal.vulkan", refuse_all, emit_all, scratch_all),
};

}  // namespace

const std::span<const Op> reduce_ops = reduce_table;

}  // namespace quern::vulkan
