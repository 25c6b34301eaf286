// Gradients of norms. See norms.hpp.
#include "elementwise.hpp"
#include "norms.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

std::uint64_t stats_bytes(const Tensor& x) { return (static_cast<std::uint64_t>(x.rows()) * 8 + 255) / 256 * 256; }
/// Parts of rows whose columns are summed side by side, as shaders/norm_backward.comp has them.
constexpr std::int64_t most_norm_parts = 64, least_part_rows = 64;
std::int64_t norm_parts(std::int64_t rows) {
  const std::int64_t part = std::max(least_part_rows, (rows + most_norm_parts - 1) / most_norm_parts);
  return (rows + part - 1) / part;
}

}  // namespace

std::string refuse_norm_backward(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.predicate.present() && x.rank < 2) return "x has one dimension; it takes a predicate of one element";
  if (x.rows() >= std::int64_t{1} << 30) return concat(describe(x), "; fewer than 2^30 rows are taken");
  return first_of({check_contiguous(call.input(1)), check_contiguous(call.output(1)), check_contiguous(call.output(2))});
}

std::uint64_t scratch_norm_backward(const Call& call) {
  const std::int64_t parts = std::clamp<std::int64_t>((call.input(0).rows() + least_part_rows - 1) / least_part_rows, 1, most_norm_parts);
  return stats_bytes(call.input(0)) + static_cast<std::uint64_t>(parts * call.input(0).last()) * 8;
}

void launch_norm_backward(const Call& call, const Tensor& weight, const Tensor& dy, std::int32_t kind, Launcher& launcher) {
  const Tensor &x = call.input(0), &dx = call.output(0), &dweight = call.output(1), &dbias = call.output(2);
  const bool sums = kind != norm_l2 && (dweight.present() || dbias.present());
  if (sums && x.rows() == 0 && !call.flag(QUERN_KEY_ACCUMULATE))
    for (const Tensor* t : {&dweight, &dbias})
      if (t->present()) fill_view(*t, 0, launcher);
  for_each_row_part(x, {&x, &dy, &dx}, [&](const Shape& rows, const View* v) {
    NormBackwardParams p{};
    p.rows = rows;
    p.x = v[0];
    p.dy = v[1];
    p.dx = v[2];
    p.weight = weight.data;
    p.predicate = call.predicate.data;
    p.stats = call.scratch;
    p.sums = call.scratch + stats_bytes(x);
    p.n = static_cast<uint>(x.last());
    p.rows_a_predicate = x.rank < 2 || x.dims[0] == 0 ? 1 : std::max<uint>(1, static_cast<uint>(x.rows() / x.dims[0]));
    p.epsilon = call.number(QUERN_KEY_EPSILON);
    if (kind == norm_rms && weight.present()) p.offset = call.number(QUERN_KEY_WEIGHT_OFFSET);
    if (kind != norm_l2) {
      p.dweight = dweight.data;
      p.dbias = dbias.data;
      p.accumulate = call.flag(QUERN_KEY_ACCUMULATE) ? 1 : 0;
    }
    const std::uint32_t threads = launcher.row_threads(x.last());
    launcher.launch("norm_backward", threads, launcher.rows(rows.count), p, {kind, norm_measure});
    launcher.barrier();
    if (sums) {
      Launcher::Grid grid = launcher.spread(p.n);
      grid.y = norm_parts(rows.count);
      launcher.launch("norm_backward", launcher.item_threads(), grid, p, {kind, norm_columns});
      launcher.barrier();
    }
    launcher.launch("norm_backward", threads, launcher.rows(rows.count), p, {kind, norm_gradients});
    if (sums) {
      launcher.barrier();
      launcher.launch("norm_backward", launcher.item_threads(), launcher.spread(p.n), p, {kind, norm_store_sums});
    }
  });
}

}  // namespace quern::vulkan
