// rms_norm: y = (weight + weight_offset) * x / sqrt(mean(x^2) + epsilon), row by row.
//
// Bound: (2 sqrt(n) + 8) u |r|: a blocked sum of n squares under the root, a reciprocal root of 2 ulp, two products; with an offset one
// more rounding of weight + offset, u (|weight| + |offset|) |x| / rms. The first product may be subnormal: it is then off by 2^-150,
// which the other factor (the weight, or 1 / rms) multiplies.
#include "ops/hard_values.hpp"

#include <limits>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  const std::int64_t n = x.dim_from_end(0);
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0), offset = call.attribute(QUERN_KEY_WEIGHT_OFFSET, 0);
  const std::vector<double> w = weight.absent() ? std::vector<double>(static_cast<std::size_t>(n), 1.0) : weight.values();
  const double applied = weight.absent() ? 0.0 : offset;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.reserve(static_cast<std::size_t>(x.count()));
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t first = 0; first < x.count(); first += n) {
    x.read(first, n, row.data());
    double sum = 0;
    for (const double v : row) sum += v * v;
    const double factor = 1.0 / std::sqrt(sum / static_cast<double>(n) + epsilon);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double r = (w[i] + applied) * row[i] * factor;
      const double offset_error = applied == 0 ? 0.0 : u32 * (std::fabs(w[i]) + std::fabs(applied)) * std::fabs(row[i]) * factor;
      const double subnormal = 0x1p-150 * (factor + std::fabs(w[i]) + std::fabs(applied));
      y.add(r, (2.0 * std::sqrt(static_cast<double>(n)) + 8.0) * u32 * std::fabs(r) + offset_error + subnormal);
    }
  }
}

/// Row 0 zeros, 1 subnormals, 2 a NaN, 3 the largest of f16 (or 1e18), 4 one outlier; the others usual. A NaN stays in its row.
void fill_edge_rows(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n, column = i % n;
    const double usual = random.gaussian(static_cast<std::uint64_t>(i));
    double v = usual;
    if (row == 0) v = 0.0;
    if (row == 1) v = usual * (x.dtype() == QUERN_F16 ? 0x1p-22 : 0x1p-140);
    if (row == 2 && column == n / 2) v = std::numeric_limits<double>::quiet_NaN();
    if (row == 3) v = x.dtype() == QUERN_F16 ? std::copysign(65504.0, usual) : usual * 1e17;
    if (row == 4 && column == n - 1) v = 1e4;
    x.set(i, v);
  }
}

Case make(Profile profile, ValueSpec x, ValueSpec weight, ValueSpec y, double epsilon, double offset) {
  Case c;
  c.group = "norm";
  c.op = QUERN_OP_RMS_NORM;
  c.profile = profile;
  c.level = level_inference;
  c.inputs = {std::move(x), std::move(weight)};
  c.outputs = {std::move(y)};
  c.attributes = {{QUERN_KEY_EPSILON, epsilon}};
  if (offset != 0) c.attributes.push_back({QUERN_KEY_WEIGHT_OFFSET, offset});
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {1, 31, 33, 64, 576, 2048, 4096, 5120, 11008}) {
      const ValueSpec weight = constant(QUERN_F32, {n}, DataKind::uniform);
      for (const double epsilon : {1e-6, 1e-5, 1e-1})
        for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy}) {
          const ValueSpec x = input(dtype, {5, n}, data);
          const Profile profile = n <= 576 || (epsilon == 1e-5 && data != DataKind::gaussian) ? Profile::quick : Profile::full;
          sink.add(make(profile, x, weight, output(dtype, {5, n}), epsilon, 0));
          sink.add(make(Profile::full, x, weight, output(dtype, {5, n}), epsilon, 1));
          sink.add(make(Profile::full, x, absent(), output(dtype, {5, n}), epsilon, 0));
        }
      const ValueSpec edge = filled(input(dtype, {7, n}), "edge_rows", fill_edge_rows);
      sink.add(make(Profile::quick, edge, weight, output(dtype, {7, n}), 1e-5, 0));
      sink.add(make(Profile::quick, edge, weight, output(dtype, {7, n}), 1e-5, 1));
      sink.add(make(Profile::quick, edge, absent(), output(dtype, {7, n}), 1e-6, 0));
      if (n == 33 || n == 2048)  // infinities too: each row stands for itself
        sink.add(make(Profile::quick, filled(input(dtype, {14, n}), "not_finite_rows", fill_not_finite_rows), weight,
                      output(dtype, {14, n}), 1e-5, 0));
      const ValueSpec x = input(dtype, {3, 4, n});
      sink.add(make(Profile::quick, x, weight, in_place(x, 0), 1e-5, 0));
      sink.add(make(Profile::quick, input(dtype, {3, 4, n}, DataKind::gaussian, rows_apart(3)), weight, output(dtype, {3, 4, n}), 1e-5, 0));
      sink.add(make(Profile::quick, x, weight, output(dtype, {3, 4, n}, rows_apart(5)), 1e-5, 0));
      sink.add(make(Profile::quick, input(dtype, {3, 4, n}, DataKind::gaussian, ordered({1, 0, 2})), weight, output(dtype, {3, 4, n}), 1e-5,
                    0));
      for (const std::int64_t rows : {1, 8, 33, 129})
        sink.add(make(Profile::full, input(dtype, {rows, n}), weight, output(dtype, {rows, n}), 1e-5, 0));
    }
}

}  // namespace

extern const Family rms_norm_family;
const Family rms_norm_family = {"rms_norm", generate};

}  // namespace quern::conformance
