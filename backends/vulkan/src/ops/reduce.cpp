// See reduce.hpp.
#include "elementwise.hpp"
#include "reduce.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int32_t all = 4, finish = 5, count_equal = 6, finish_count = 7;  // as in shaders/reduce.comp
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

std::string check_whole(const Tensor& x, int bits) {
  return x.elements() >= std::int64_t{1} << bits ? concat(describe(x), "; fewer than 2^", bits, " elements are taken") : "";
}

}  // namespace

void launch_row_reduction(const Call& call, ReducedRow op, Launcher& launcher) {
  const Tensor &x = call.input(0), y = beside_rows(call.output(0), x);
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

std::string refuse_whole_sum(const Call& call) {
  static_assert(most_reduced_parts << 29 == std::int64_t{1} << 35);
  return check_whole(call.input(0), 35);
}
std::string refuse_whole_count(const Call& call) { return check_whole(call.input(0), 31); }
std::uint64_t scratch_whole(const Call&) { return most_reduced_parts * partials_a_part * 4; }

void launch_whole_reduction(const Call& call, ReducedWhole op, Launcher& launcher) {
  const bool counts = op == whole_equal;
  const Tensor &x = call.input(0), &b = counts ? call.input(1) : x;
  const Tensor one = beside_rows(call.output(0), x);
  RowParams last{};
  last.partial = call.scratch;
  last.y.data = one.data;
  last.y.dtype = static_cast<int>(one.dtype);
  last.count = static_cast<float>(x.elements());
  last.mode = counts ? 0 : op;
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

}  // namespace quern::vulkan
