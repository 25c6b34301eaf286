// cross_entropy_backward: dlogits = dloss ((1 + 2 z lse) p - smoothing / n - (1 - smoothing) at the label), p = exp(x - lse).
//
// Bound: p is off by (8 + 2 |x - lse|) u relatively (one rounding of the difference, exp) and by 2^-126 where it is subnormal; then 4 u of
// each term. Ignored rows and those whose label is out of range are 0 exactly. lse is that of the logits, rounded to f32.
#include "ops/loss_rows.hpp"

namespace quern::conformance {
namespace {

void derive(const ReferenceCall& call) {
  const Tensor &logits = call.inputs[0], &lse = call.inputs[2];
  const std::int64_t n = logits.dims()[1];
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < lse.count(); ++t) {
    logits.read(t * n, n, x.data());
    lse.set(t, log_sum_exp(x).value);
  }
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &logits = call.inputs[0], &label = call.inputs[1];
  const std::int64_t n = logits.dims()[1];
  const auto ignore = static_cast<std::int64_t>(call.attribute(QUERN_KEY_IGNORE, -100));
  const double smoothing = call.attribute(QUERN_KEY_SMOOTHING, 0), z = call.attribute(QUERN_KEY_Z_LOSS, 0);
  const quern_dtype dtype = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.reserve(static_cast<std::size_t>(logits.count()));
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < logits.dims()[0]; ++t) {
    const auto wanted = static_cast<std::int64_t>(label.at(t));
    if (wanted == ignore || wanted < 0 || wanted >= n) {
      for (std::int64_t i = 0; i < n; ++i) y.add(0.0, 0.0);
      continue;
    }
    logits.read(t * n, n, x.data());
    const double lse = call.inputs[2].at(t), dloss = call.inputs[3].at(t), even = smoothing / static_cast<double>(n);
    const double factor = 1 + 2 * z * lse, factor_size = 1 + 2 * z * std::fabs(lse);
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = x[static_cast<std::size_t>(i)], p = std::exp(v - lse), own = i == wanted ? 1 - smoothing : 0.0;
      const double r = dloss * (factor * p - even - own), far = std::min(std::fabs(v - lse), 200.0);
      const double e = ((8 + 2 * far) * p * factor_size + 4 * (factor_size * p + even + own)) * u32 + 0x1p-126 * factor_size;
      y.add(r, std::fabs(dloss) * e + narrow_store(dtype, r));
    }
  }
}

void nothing(const Tensor&, const CounterRandom&) {}

void generate(CaseSink& sink) {
  const auto add = [&](Profile profile, const LossShape& shape, Layout y_layout = {}, bool over = false) {
    Case c = loss_case(QUERN_OP_CROSS_ENTROPY_BACKWARD, profile, shape);
    const Dims rows = {shape.logits.dims[0]};
    c.inputs.push_back(filled(input(QUERN_F32, rows), "of_logits", nothing));
    c.inputs.push_back(input(QUERN_F32, rows));
    c.outputs = {over ? in_place(c.inputs[0], 0) : output(shape.logits.dtype, shape.logits.dims, std::move(y_layout))};
    c.derive = derive;
    c.reference = reference;
    sink.add(std::move(c));
  };
  each_loss_shape([&](Profile profile, const LossShape& shape) { add(profile, shape); });
  for (const quern_dtype dtype : float_dtypes)
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
      add(Profile::quick, {input(dtype, {5, 99}), Labels::some_ignored, -100, 0.125, 0}, layout);
  for (const quern_dtype dtype : float_dtypes)  // dlogits over logits; rows longer than what kernels hold at a time
    for (const std::int64_t n : {1, 99, 4099}) {
      add(Profile::quick, {input(dtype, {5, n}), Labels::some_ignored, -100, 0.125, 0.25}, {}, true);
      add(Profile::quick, {input(dtype, {5, n}, DataKind::gaussian, rows_apart(3)), Labels::some_ignored, -100, 0, 0}, {}, true);
    }
}

}  // namespace

extern const Family cross_entropy_backward_family;
const Family cross_entropy_backward_family = {"cross_entropy_backward", generate};

}  // namespace quern::conformance
