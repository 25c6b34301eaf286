// The sum of all elements; and what other sums launch (sum.hpp).
#include "sum.hpp"
#include "strided.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

constexpr std::int64_t wanted_blocks = 512, least_share = 1024;
constexpr std::uint64_t parts_bytes = wanted_blocks * 32 * sizeof(double);

/// Cuts the dims of x into those that y keeps and those that are summed.
void cut(const Call& call, bool whole, SumParams& p) {
  const Tensor &x = call.input(0), &y = call.output(0);
  p.x = operand_of(x);
  p.y = operand_of(y);
  p.kept = p.reduced = empty_walk;
  Operand *const both[] = {&p.x, &p.y}, *const inner[] = {&p.inner};
  for (std::uint32_t d = 0; d < x.rank; ++d) {
    const bool there = !whole && d + y.rank >= x.rank;
    const std::int64_t n = there ? std::max<std::int64_t>(1, y.dims[d + y.rank - x.rank]) : 1;
    const std::int64_t of_x[] = {x.strides[d], there ? y.strides[d + y.rank - x.rank] : 0}, apart[] = {x.strides[d] * n};
    add_dimension(p.reduced, x.dims[d] / n, inner, apart);
    add_dimension(p.kept, n, both, of_x);
  }
  finish(p.kept);
  finish(p.reduced);
}

void emit_sum(const Call& call, Launcher& launcher) { launch_sum(call, sum_plain, true, launcher); }

}  // namespace

const Op sum_op{QUERN_OP_SUM, "sum.cuda", nullptr, emit_sum, scratch_sum};

std::uint64_t scratch_sum(const Call&) { return parts_bytes; }

void launch_sum(const Call& call, SumKind kind, bool whole, Launcher& launcher) {
  SumParams p{};
  cut(call, whole, p);
  p.kind = kind;
  p.parts = call.scratch;
  const auto element = static_cast<std::int64_t>(sdk::element_size(call.input(0).dtype).bytes);
  const bool across = p.kept.count > 1 && p.x.strides[p.kept.rank - 1] == element && p.inner.strides[p.reduced.rank - 1] != element;
  const std::int64_t blocks = across ? (p.kept.count + 31) / 32 : p.kept.count;
  p.splits =
      static_cast<int>(std::clamp<std::int64_t>(wanted_blocks / blocks, 1, std::max<std::int64_t>(1, p.reduced.count / least_share)));
  const unsigned threads = across || p.reduced.count > 128 ? 256 : 32;
  launcher.launch(across ? kernels::sum_across : kernels::sum_along, {blocks, p.splits, 1}, threads, p);
  if (p.splits > 1) launcher.launch(kernels::sum_parts, launcher.spread(p.kept.count), 256, p);
}

}  // namespace quern::cuda
