// loss = lse - (1 - smoothing) x[label] - smoothing mean(x) + z_loss lse^2 for each row, from f64 sums; lse is that of the row whatever
// its label. The loss of an ignored row is exactly 0; so is that of a label out of range, which raises INDEX_RANGE.
//
// A term whose factor is 0 is left out: it must not turn a logit of -inf into NaN.
#include "log_sum_exp.hpp"

namespace quern::cpu {
namespace {

double row_loss(const Call& call, std::int64_t row, std::int64_t label, double lse) noexcept {
  const Tensor& x = call.input(0);
  const double smoothing = call.real(QUERN_KEY_SMOOTHING), z_loss = call.real(QUERN_KEY_Z_LOSS);
  const std::int64_t n = x.last();
  double loss = lse;
  if (smoothing < 1.0) loss -= (1.0 - smoothing) * static_cast<double>(load_scalar(x, row * n + label));
  if (smoothing > 0.0) loss -= smoothing * row_sum(x, row, 0, n, [](float v) { return v; }) / static_cast<double>(n);
  if (z_loss > 0.0) loss += z_loss * lse * lse;
  return loss;
}

template <Isa isa>
void run_cross_entropy(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &label = call.input(1), &loss = call.output(0), &lse = call.output(1);
  const std::int64_t ignore = call.integer(QUERN_KEY_IGNORE), n = x.last();
  context.parallel(x.dims[0], rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      const std::int64_t wanted = load_integer(label, row);
      const bool in_range = wanted >= 0 && wanted < n;
      if (!in_range && wanted != ignore) context.fault(QUERN_FAULT_INDEX_RANGE);
      const double sum = log_sum_exp(x, row, vectors_of(isa));
      store_scalar(lse, row, static_cast<float>(sum));
      store_scalar(loss, row, in_range && wanted != ignore ? static_cast<float>(row_loss(call, row, wanted, sum)) : 0.0f);
    }
  });
}

constexpr Kernel kernels_cross_entropy[] = {
    QUERN_CPU_KERNELS(QUERN_OP_CROSS_ENTROPY, "cross_entropy", accepts_any, run_cross_entropy, nullptr, true)};

}  // namespace

const std::span<const Kernel> cross_entropy_kernels = kernels_cross_entropy;

}  // namespace quern::cpu
