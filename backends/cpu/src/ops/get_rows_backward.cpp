// dtable[index[i]] += dy[i], in f32 and in the order of i, with one rounding at the store; rows of no index are 0, or kept with accumulate.
//
// The rows of dy are sorted by the row of dtable that they go to, which one thread then makes: duplicates need no lock. An index out of
// range gives nothing and raises INDEX_RANGE.
#include "map_rows.hpp"
#include "row_groups.hpp"

namespace quern::cpu {
namespace {

std::uint64_t scratch_get_rows_backward(const Call& call) noexcept {
  return static_cast<std::uint64_t>(row_groups_bytes(call.input(0).dims[0], call.output(0).dims[0]));
}

template <Isa isa>
void run_get_rows_backward(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &dy = call.input(0), &dtable = call.output(0);
  const bool accumulate = call.integer(QUERN_KEY_ACCUMULATE) != 0;
  const std::int64_t rows = dtable.dims[0], n = dtable.dims[1];
  const RowGroups groups = group_rows(
      call.input(1), rows, context.scratch(), [&](std::int64_t i) { return call.row_live(i); },
      [&](std::int64_t) { context.fault(QUERN_FAULT_INDEX_RANGE); });
  const auto make_row = [&](std::int64_t row) {
    constexpr std::int64_t part = 1024;
    float sum[part], buffer[part];
    for (std::int64_t first = 0; first < n; first += part) {
      const std::int64_t count = std::min(part, n - first);
      if (accumulate) load_row(dtable, row, first, count, sum);
      else std::fill_n(sum, count, 0.0f);
      for (std::int64_t i = groups.first(row); i < groups.first(row) + groups.count(row) && !context.cancelled(); ++i)
        vectors.add(sum, part_floats(vectors, dy, groups.order[i], first, count, buffer), count, sum);
      finish_part(vectors, dtable, row, first, count, sum, sum);
    }
  };
  context.parallel(accumulate ? groups.chosen_count : rows, rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) make_row(accumulate ? groups.chosen[i] : i);
  });
}

constexpr Kernel kernels_get_rows_backward[] = {QUERN_CPU_KERNELS(QUERN_OP_GET_ROWS_BACKWARD, "get_rows_backward", accepts_any,
                                                                  run_get_rows_backward, scratch_get_rows_backward, true)};

}  // namespace

const std::span<const Kernel> get_rows_backward_kernels = kernels_get_rows_backward;

}  // namespace quern::cpu
