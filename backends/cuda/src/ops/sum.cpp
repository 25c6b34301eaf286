// sum, mean, norm, sum_rows, sum_to, count_equal, grad_norm.
#include "../kernels/sum.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

constexpr std::int64_t wanted_blocks = 512, least_share = 1024;
constexpr std::uint64_t parts_bytes = wanted_blocks * 32 * sizeof(double);

bool sums_all(std::uint32_t op) { return op == QUERN_OP_SUM || op == QUERN_OP_MEAN || op == QUERN_OP_NORM; }

/// Cuts the dims of x into those that y keeps and those that are summed.
void cut(const Call& call, SumParams& p) {
  const Tensor &x = call.input(0), &y = call.output(0);
  p.x = operand_of(x);
  p.y = operand_of(y);
  p.kept = p.reduced = empty_walk;
  Operand *const both[] = {&p.x, &p.y}, *const inner[] = {&p.inner};
  for (std::uint32_t d = 0; d < x.rank; ++d) {
    const bool there = !sums_all(call.op) && d + y.rank >= x.rank;
    const std::int64_t n = there ? std::max<std::int64_t>(1, y.dims[d + y.rank - x.rank]) : 1;
    const std::int64_t of_x[] = {x.strides[d], there ? y.strides[d + y.rank - x.rank] : 0}, apart[] = {x.strides[d] * n};
    add_dimension(p.reduced, x.dims[d] / n, inner, apart);
    add_dimension(p.kept, n, both, of_x);
  }
  finish(p.kept);
  finish(p.reduced);
}

std::uint64_t scratch(const Call&) { return parts_bytes; }

void emit(const Call& call, Launcher& launcher) {
  SumParams p{};
  cut(call, p);
  p.kind = call.op == QUERN_OP_MEAN ? sum_mean : call.op == QUERN_OP_NORM ? sum_norm : sum_plain;
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

void emit_count(const Call& call, Launcher& launcher) {
  CountParams p{};
  p.shape = walk_elements(call.input(0), {{call.input(0), p.a}, {call.input(1), p.b}});
  p.parts = call.scratch;
  p.count = call.output(0).data;
  launcher.launch(kernels::count_equal, {squares_blocks, 1, 1}, 256, p);
  launcher.launch(kernels::count_total, {1, 1, 1}, 32, p);
}

std::uint64_t scratch_grad_norm(const Call& call) { return call.inputs.size() * squares_blocks * (sizeof(double) + sizeof(int)); }

void emit_grad_norm(const Call& call, Launcher& launcher) {
  SquaresParams p{};
  p.parts = call.scratch;
  p.slots = static_cast<long long>(call.inputs.size() * squares_blocks);
  long long first = 0;
  const auto launch = [&](std::int64_t tensors) {
    p.first = first;
    launcher.launch(kernels::squares, {squares_blocks, tensors, 1}, 256, p);
    first += tensors * squares_blocks;
    p.count = 0;
  };
  for (const Tensor& gradient : call.inputs) {
    if (!is_contiguous(gradient)) continue;
    p.of[p.count++] = {gradient.data, static_cast<int>(gradient.dtype), gradient.elements()};
    if (p.count == most_squares) launch(p.count);
  }
  if (p.count > 0) launch(p.count);
  for (const Tensor& gradient : call.inputs) {
    if (is_contiguous(gradient)) continue;
    p.shape = walk_elements(gradient, {{gradient, p.x}});
    launch(1);
  }
  const NormTotalParams total{call.scratch, call.output(0).data, call.output(1).data, p.slots};
  launcher.launch(kernels::norm_total, {1, 1, 1}, 256, total);
}

constexpr Op table[] = {{QUERN_OP_SUM, "sum.cuda", nullptr, emit, scratch},
                        {QUERN_OP_MEAN, "mean.cuda", nullptr, emit, scratch},
                        {QUERN_OP_NORM, "norm.cuda", nullptr, emit, scratch},
                        {QUERN_OP_SUM_ROWS, "sum_rows.cuda", nullptr, emit, scratch},
                        {QUERN_OP_SUM_TO, "sum_to.cuda", nullptr, emit, scratch},
                        {QUERN_OP_COUNT_EQUAL, "count_equal.cuda", nullptr, emit_count, scratch},
                        {QUERN_OP_GRAD_NORM, "grad_norm.cuda", nullptr, emit_grad_norm, scratch_grad_norm}};

}  // namespace

const std::span<const Op> sum_ops = table;

}  // namespace quern::cuda
