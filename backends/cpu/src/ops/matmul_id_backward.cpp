// Gradients of matmul_id: da[t][u] = dy[t][u] b[id[t][u]] (summed over u where a has one row a token), db[e] = sum over its pairs of
// dy^T a.
//
// The (t, u) are sorted by expert. Sums go over rows of b, or over pairs in their order, in blocks of 64; with one row of a for a token,
// its products add up by ascending expert. An id of -1 gives nothing; another one out of range too, and raises INDEX_RANGE.
//
//   db    a part is 64 rows and 256 columns of one expert
//   da    a part is 256 columns, of all pairs of an expert or, where rows of a are shared, of 256 tokens
#include "map_rows.hpp"
#include "product_parts.hpp"
#include "row_groups.hpp"

namespace quern::cpu {
namespace {

constexpr std::int64_t token_block = 256;  // with a row of a each

std::int64_t experts_of(const Call& call) noexcept { return call.input(2).present() ? call.input(2).dims[0] : call.output(1).dims[0]; }
constexpr std::int64_t thread_floats = product_rows * product_columns + product_rows * product_rows + token_block * product_columns;

std::uint64_t scratch(const Call& call) noexcept {
  return static_cast<std::uint64_t>(row_groups_bytes(call.input(3).elements(), experts_of(call))) +
         static_cast<std::uint64_t>(thread_floats) * 4 * call.thread_count;
}

/// One thread's work.
class Part {
 public:
  Part(const Call& call, const RowGroups& groups, const Vectors& vectors, float* memory) noexcept
      : dy_(call.input(0)),
        a_(call.input(1)),
        b_(call.input(2)),
        call_(call),
        groups_(groups),
        vectors_(vectors),
        used_(call.input(3).dims[1]),
        rows_(memory),
        weights_(rows_ + product_rows * product_columns),
        sums_(weights_ + product_rows * product_rows) {}

  /// Rows from `row` on and columns from `column` on of db of one expert.
  void make_db(std::int64_t expert, std::int64_t row, std::int64_t column, const Context& context) noexcept {
    const Tensor& db = call_.output(1);
    const bool add = call_.integer(QUERN_KEY_ACCUMULATE) != 0;
    const std::int64_t rows = std::min(product_rows, db.dims[1] - row), columns = std::min(product_columns, db.dims[2] - column);
    const std::int64_t pairs = groups_.count(expert), width = whole_lanes(columns);
    if (add && pairs == 0) return;
    std::fill_n(sums_, rows * width, 0.0f);
    for (std::int64_t at = 0; at < pairs && !context.cancelled(); at += product_rows) {
      const std::int64_t depth = std::min(product_rows, pairs - at);
      for (std::int64_t j = 0; j < depth; ++j) {
        const std::int64_t pair = groups_.order[groups_.first(expert) + at + j];
        gather(vectors_, a_.dtype, row_of(a_, pair), a_.strides[2], column, columns, rows_ + j * width);
        gather(vectors_, dy_.dtype, row_of(dy_, pair), dy_.strides[2], row, rows, weights_ + j * product_rows);
      }
      vectors_.accumulate({weights_, 1, product_rows, rows_, width, sums_, width, nullptr, rows, depth, width});
    }
    for (std::int64_t r = 0; r < rows; ++r)
      store_product(bytes_of(db) + expert * db.strides[0] + (row + r) * db.strides[1], db.dtype, db.strides[2], column, columns, 1.0f, add,
                    sums_ + r * width, rows_);
  }

  /// Columns from `column` on of da for the pairs of one expert.
  void make_da(std::int64_t expert, std::int64_t column, const Context& context) noexcept {
    const std::int64_t *order = groups_.order + groups_.first(expert), pairs = groups_.count(expert);
    const std::int64_t columns = std::min(product_columns, a_.dims[2] - column), width = whole_lanes(columns);
    for (std::int64_t at = 0; at < pairs && !context.cancelled(); at += product_rows) {
      const std::int64_t count = std::min(product_rows, pairs - at);
      std::fill_n(sums_, count * width, 0.0f);
      add_expert(expert, order + at, count, nullptr, column, columns, context);
      for (std::int64_t r = 0; r < count; ++r) store_da(order[at + r], column, columns, sums_ + r * width);
    }
  }

  /// Columns from `column` on of da for tokens [token, token + 256), each with one row of a.
  void make_shared_da(std::int64_t token, std::int64_t column, const Context& context) noexcept {
    const std::int64_t tokens = std::min(token_block, a_.dims[0] - token), columns = std::min(product_columns, a_.dims[2] - column);
    const std::int64_t width = whole_lanes(columns);
    std::int64_t rows[product_rows];
    std::fill_n(sums_, tokens * width, 0.0f);
    for (std::int64_t c = 0; c < groups_.chosen_count && !context.cancelled(); ++c) {
      const std::int64_t expert = groups_.chosen[c], *order = groups_.order + groups_.first(expert), *end = order + groups_.count(expert);
      const std::int64_t* from = std::lower_bound(order, end, token * used_);
      const std::int64_t* to = std::lower_bound(from, end, (token + tokens) * used_);
      for (; from < to; from += product_rows) {
        const std::int64_t count = std::min<std::int64_t>(product_rows, to - from);
        for (std::int64_t r = 0; r < count; ++r) rows[r] = from[r] / used_ - token;
        add_expert(expert, from, count, rows, column, columns, context);
      }
    }
    for (std::int64_t r = 0; r < tokens; ++r)
      if (call_.row_live(token + r)) store_da((token + r) * used_, column, columns, sums_ + r * width);
  }

 private:
  /// sums[rows[r], or r] += dy[pairs[r]] b[expert], in these columns.
  void add_expert(std::int64_t expert, const std::int64_t* pairs, std::int64_t count, const std::int64_t* rows, std::int64_t column,
                  std::int64_t columns, const Context& context) noexcept {
    const std::int64_t width = whole_lanes(columns), n = dy_.dims[2];
    for (std::int64_t first = 0; first < n && !context.cancelled(); first += product_rows) {
      const std::int64_t depth = std::min(product_rows, n - first);
      for (std::int64_t j = 0; j < depth; ++j)
        gather(vectors_, b_.dtype, bytes_of(b_) + expert * b_.strides[0] + (first + j) * b_.strides[1], b_.strides[2], column, columns,
               rows_ + j * width);
      for (std::int64_t r = 0; r < count; ++r)
        gather(vectors_, dy_.dtype, row_of(dy_, pairs[r]), dy_.strides[2], first, depth, weights_ + r * product_rows);
      vectors_.accumulate({weights_, product_rows, 1, rows_, width, sums_, width, rows, count, depth, width});
    }
  }
  const std::byte* row_of(const Tensor& x, std::int64_t pair) const noexcept {
    return bytes_of(x) + pair / used_ * x.strides[0] + (x.dims[1] == 1 ? 0 : pair % used_ * x.strides[1]);
  }
  void store_da(std::int64_t pair, std::int64_t column, std::int64_t columns, const float* from) noexcept {
    const Tensor& da = call_.output(0);
    store_floats(const_cast<std::byte*>(row_of(da, pair)), da.dtype, da.strides[2], column, columns, from);
  }

  const Tensor &dy_, &a_, &b_;
  const Call& call_;
  const RowGroups& groups_;
  const Vectors& vectors_;
  std::int64_t used_;
  float *rows_, *weights_, *sums_;  // [64][256], [64][64] and [256][256]
};

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const Tensor &dy = call.input(0), &a = call.input(1), &id = call.input(3), &da = call.output(0);
  const std::int64_t experts = experts_of(call), used = id.dims[1], pairs = id.elements();
  const RowGroups groups = group_rows(
      id, experts, context.scratch(), [&](std::int64_t pair) { return call.row_live(pair / used); },
      [&](std::int64_t expert) {
        if (expert != -1) context.fault(QUERN_FAULT_INDEX_RANGE);
      });
  float* memory = reinterpret_cast<float*>(context.scratch() + row_groups_bytes(pairs, experts));
  const std::int64_t row_parts = (dy.dims[2] + product_rows - 1) / product_rows,
                     column_parts = (a.dims[2] + product_columns - 1) / product_columns;
  const auto each_part = [&](std::int64_t count, const auto& body) {
    context.parallel(count, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      Part part(call, groups, vectors_of(isa), memory + thread * thread_floats);
      for (std::int64_t i = begin; i < end; ++i) body(part, i);
    });
  };
  if (call.output(1).present())
    each_part(experts * row_parts * column_parts, [&](Part& part, std::int64_t i) {
      part.make_db(i / column_parts / row_parts, i / column_parts % row_parts * product_rows, i % column_parts * product_columns, context);
    });
  if (!da.present()) return;
  if (a.dims[1] == 1) {
    each_part((a.dims[0] + token_block - 1) / token_block * column_parts, [&](Part& part, std::int64_t i) {
      part.make_shared_da(i / column_parts * token_block, i % column_parts * product_columns, context);
    });
    return;
  }
  for (std::int64_t pair = 0; groups.starts[experts] < pairs && pair < pairs; ++pair)
    if (const std::int64_t expert = load_integer(id, pair); (expert < 0 || expert >= experts) && call.row_live(pair / used))
      store_zeros(da, pair);
  each_part(groups.chosen_count * column_parts, [&](Part& part, std::int64_t i) {
    part.make_da(groups.chosen[i / column_parts], i % column_parts * product_columns, context);
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_KERNELS(QUERN_OP_MATMUL_ID_BACKWARD, "matmul_id_backward", accepts_any, run, scratch, true)};

}  // namespace

const std::span<const Kernel> matmul_id_backward_kernels = kernels;

}  // namespace quern::cpu
