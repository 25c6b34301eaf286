// cross_entropy: loss = lse - (1 - smoothing) x[label] - smoothing mean(x) + z_loss lse^2, and lse.
//
// Bound of lse: loss_rows.hpp. Of the loss: E(lse) (1 + 2 z |lse|) and u of the first difference. With smoothing, 2 u of the label's term and
// of the mean's, (2 sqrt(n) + 8) u smoothing mean|x| for the mean, and u of all terms for the second difference. With z, 3 u z lse^2, and u of all
// terms for its sum. Without them these products are exact.
// Ignored rows and those whose label is out of range are 0 exactly: their bound is 0.
#include "ops/loss_rows.hpp"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &logits = call.inputs[0], &label = call.inputs[1];
  const std::int64_t n = logits.dims()[1];
  const auto ignore = static_cast<std::int64_t>(call.attribute(QUERN_KEY_IGNORE, -100));
  const double smoothing = call.attribute(QUERN_KEY_SMOOTHING, 0), z = call.attribute(QUERN_KEY_Z_LOSS, 0);
  ExpectedOutput &loss = expected.outputs[0], &lse = expected.outputs[1];
  loss.rule = lse.rule = Rule::bounded;
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < logits.dims()[0]; ++t) {
    logits.read(t * n, n, x.data());
    const LogSumExp sum = log_sum_exp(x);
    lse.add(sum.value, sum.bound);
    const auto wanted = static_cast<std::int64_t>(label.at(t));
    if (wanted == ignore || wanted < 0 || wanted >= n) {
      loss.add(0.0, 0.0);
      continue;
    }
    double mean = 0, mean_size = 0;
    if (smoothing > 0) {  // a term whose factor is 0 is left out: an infinite logit would make it NaN
      for (const double v : x) mean += v, mean_size += std::fabs(v);
      mean /= static_cast<double>(n);
      mean_size /= static_cast<double>(n);
    }
    const double own = smoothing < 1 ? (1 - smoothing) * x[static_cast<std::size_t>(wanted)] : 0.0, size = std::fabs(sum.value);
    const double r = sum.value - own - (smoothing > 0 ? smoothing * mean : 0.0) + z * sum.value * sum.value;
    const double terms = size + std::fabs(own) + smoothing * mean_size + z * size * size;
    double bound = sum.bound * (1 + 2 * z * size) + u32 * std::fabs(sum.value - own);
    if (smoothing > 0) bound += u32 * (2 * std::fabs(own) + (2 * std::sqrt(static_cast<double>(n)) + 10) * smoothing * mean_size + terms);
    if (z > 0) bound += u32 * (3 * z * size * size + terms);
    loss.add(r, bound);
  }
}

void generate(CaseSink& sink) {
  each_loss_shape([&](Profile profile, const LossShape& shape) {
    Case c = loss_case(QUERN_OP_CROSS_ENTROPY, profile, shape);
    const Dims rows = {shape.logits.dims[0]};
    c.outputs = {output(QUERN_F32, rows), output(QUERN_F32, rows)};
    c.reference = reference;
    sink.add(std::move(c));
  });
}

}  // namespace

extern const Family cross_entropy_family;
const Family cross_entropy_family = {"cross_entropy", generate};

}  // namespace quern::conformance
