// rms_norm_backward layer_norm_backward l2_norm_backward.
//
// With g = dy (weight + weight_offset), c = x (x - mean for layer_norm) and r = 1 / sqrt(mean(c^2) + epsilon):
//   dx = r g - c r^3 mean(g c), less r mean(g) for layer_norm; dweight = sum over rows of dy c r; dbias = sum over rows of dy.
// With L = sqrt(sum(x^2)): l2_norm's dx = dy / L - x (x . dy) / L^3, or dy / epsilon where L is below epsilon.
//
// Bounds, u = 2^-24: a sum of n terms in any order is off by s = (2 sqrt(n) + 8) u of the sum of sizes, two u more where its terms are
// products of rounded factors; r is relatively off by e = s / 2 + 4 u (a reciprocal root of 2 ulp), and so is 1 / L. layer_norm's mean is
// off by d = s mean|x|, c by d + u |c|, and the variance by d^2 more (ops/norms.cpp). Each term below is a size times the sum of the
// relative errors of its factors and of its roundings, 3 u for r g and 4 u for the product of five.
#include "ops/make_case.hpp"

#include <limits>

namespace quern::conformance {
namespace {

double sum_error(double n) { return (2.0 * std::sqrt(n) + 8.0) * u32; }

/// What one row has.
struct Row {
  std::vector<double> c, g, dy;
  double inverse = 0, inverse_error = 0;  // r and e
  double shift = 0;                       // d
};

class Norm {
 public:
  Norm(const ReferenceCall& call, bool layer)
      : call_(call), layer_(layer), x_(call.inputs[0]), weight_(call.inputs[1]), dy_(call.inputs[2]) {}

  std::int64_t length() const { return x_.dim_from_end(0); }
  std::int64_t rows() const { return length() == 0 ? 0 : x_.count() / length(); }

  Row row(std::int64_t index) const {
    const std::int64_t n = length(), first = index * n;
    const auto count = static_cast<double>(n);
    const double epsilon = call_.attribute(QUERN_KEY_EPSILON, 0),
                 offset = weight_.absent() ? 0.0 : call_.attribute(QUERN_KEY_WEIGHT_OFFSET, 0);
    Row row;
    row.c.resize(static_cast<std::size_t>(n));
    row.dy.resize(row.c.size());
    x_.read(first, n, row.c.data());
    dy_.read(first, n, row.dy.data());
    if (layer_) {
      double mean = 0, size = 0;
      for (const double v : row.c) mean += v / count, size += std::fabs(v) / count;
      for (double& v : row.c) v -= mean;
      row.shift = sum_error(count) * size;
    }
    double squares = 0;
    for (const double v : row.c) squares += v * v / count;
    row.inverse = 1.0 / std::sqrt(squares + epsilon);
    row.inverse_error = 0.5 * sum_error(count) + 4.0 * u32 + 0.5 * row.shift * row.shift * row.inverse * row.inverse;
    for (std::int64_t i = 0; i < n; ++i)
      row.g.push_back(row.dy[static_cast<std::size_t>(i)] * (weight_.absent() ? 1.0 : weight_.at(i) + offset));
    return row;
  }

  void add_dx(const Row& row, ExpectedOutput& dx, quern_dtype to) const {
    const auto count = static_cast<double>(length());
    double dot = 0, size = 0, mean = 0, mean_size = 0;
    for (std::size_t i = 0; i < row.c.size(); ++i) {
      dot += row.g[i] * row.c[i] / count;
      size += std::fabs(row.g[i] * row.c[i]) / count;
      mean += row.g[i] / count;
      mean_size += std::fabs(row.g[i]) / count;
    }
    if (!layer_) mean = mean_size = 0;
    const double r = row.inverse, e = row.inverse_error, s = sum_error(count);
    const double dot_error = (s + 3.0 * u32) * size + mean_size * row.shift;
    for (std::size_t i = 0; i < row.c.size(); ++i) {
      const double value = r * row.g[i] - row.c[i] * r * r * r * dot - r * mean;
      const double through_g = std::fabs(r * row.g[i]) * (e + 4.0 * u32),
                   through_mean = r * ((s + 2.0 * u32) * mean_size + std::fabs(mean) * (e + 2.0 * u32));
      const double through_dot =
          r * r * r * (std::fabs(row.c[i]) * (dot_error + std::fabs(dot) * (3.0 * e + 5.0 * u32)) + row.shift * std::fabs(dot));
      dx.add(value, through_g + through_mean + through_dot + half_ulp_f32(value) + narrow_store(to, value) + 0x1p-148 * (1.0 + r));
    }
  }

 private:
  const ReferenceCall& call_;
  bool layer_;
  const Tensor &x_, &weight_, &dy_;
};

void weighted_reference(const ReferenceCall& call, Expected& expected, bool layer) {
  const Norm norm(call, layer);
  const std::vector<ValueSpec>& outputs = call.what.outputs;
  const bool accumulate = call.attribute(QUERN_KEY_ACCUMULATE, 0) != 0;
  const auto n = static_cast<std::size_t>(norm.length());
  struct Sum {
    std::vector<double> value, size, error;
  };
  Sum sums[2] = {{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)},
                 {std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)}};
  expected.outputs[0].rule = Rule::bounded;
  for (std::int64_t index = 0; index < norm.rows(); ++index) {
    const Row row = norm.row(index);
    norm.add_dx(row, expected.outputs[0], outputs[0].dtype);
    for (std::size_t i = 0; i < n; ++i) {
      const double term = row.dy[i] * row.c[i] * row.inverse;
      sums[0].value[i] += term;
      sums[0].size[i] += std::fabs(term);
      sums[0].error[i] += std::fabs(term) * (row.inverse_error + 3.0 * u32) + std::fabs(row.dy[i]) * row.shift * row.inverse;
      sums[1].value[i] += row.dy[i];
      sums[1].size[i] += std::fabs(row.dy[i]);
    }
  }
  for (std::size_t o = 1; o < outputs.size(); ++o) {
    if (outputs[o].absent()) continue;
    ExpectedOutput& e = expected.outputs[o];
    e.rule = Rule::bounded;
    for (std::size_t i = 0; i < n; ++i) {
      const double before = accumulate ? call.states[o].at(static_cast<std::int64_t>(i)) : 0.0;
      const double size = sums[o - 1].size[i] + std::fabs(before);
      e.add(sums[o - 1].value[i] + before,
            accumulation_bound(Tier::t1, static_cast<double>(norm.rows() + (accumulate ? 1 : 0)), size) + sums[o - 1].error[i]);
    }
  }
}
void rms_reference(const ReferenceCall& call, Expected& expected) { weighted_reference(call, expected, false); }
void layer_reference(const ReferenceCall& call, Expected& expected) { weighted_reference(call, expected, true); }

void l2_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &dy = call.inputs[1];
  const std::int64_t n = x.dim_from_end(0);
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0), s = sum_error(static_cast<double>(n)),
               e = 0.5 * s + 8.0 * u32;  // a root of 3 ulp
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& dx = expected.outputs[0];
  dx.rule = Rule::bounded;
  for (std::int64_t first = 0; first < x.count(); first += n) {
    double squares = 0, dot = 0, size = 0;
    for (std::int64_t i = first; i < first + n; ++i) {
      squares += x.at(i) * x.at(i);
      dot += x.at(i) * dy.at(i);
      size += std::fabs(x.at(i) * dy.at(i));
    }
    const double length = std::sqrt(squares);
    const bool still = length < epsilon;
    const double inverse = 1.0 / (still ? epsilon : length), cube = still ? 0.0 : inverse * inverse * inverse;
    for (std::int64_t i = first; i < first + n; ++i) {
      const double r = dy.at(i) * inverse - x.at(i) * dot * cube;
      const double bound = std::fabs(dy.at(i)) * inverse * (e + 4.0 * u32) +
                           std::fabs(x.at(i)) * cube * ((s + 2.0 * u32) * size + std::fabs(dot) * (3.0 * e + 6.0 * u32));
      dx.add(r, bound + half_ulp_f32(r) + narrow_store(to, r) + 0x1p-148 * (1.0 + inverse));
    }
  }
}

/// Row 0 zeros, 1 subnormals, 2 a NaN, 3 large, 4 one outlier. (Not so large that r^3 leaves the range of f32.)
void fill_edge_rows(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n, column = i % n;
    const double usual = random.gaussian(static_cast<std::uint64_t>(i));
    double v = usual;
    if (row == 0) v = 0.0;
    if (row == 1) v = usual * (x.dtype() == QUERN_F16 ? 0x1p-22 : 0x1p-140);
    if (row == 2 && column == n / 2) v = std::numeric_limits<double>::quiet_NaN();
    if (row == 3) v = x.dtype() == QUERN_F16 ? std::copysign(65504.0, usual) : usual * 1e9;
    if (row == 4 && column == n - 1) v = 1e4;
    x.set(i, v);
  }
}

constexpr OpUnderTest rms_op{QUERN_OP_RMS_NORM_BACKWARD, "norm", level_training, rms_reference};
constexpr OpUnderTest layer_op{QUERN_OP_LAYER_NORM_BACKWARD, "norm", level_training, layer_reference};
constexpr OpUnderTest l2_op{QUERN_OP_L2_NORM_BACKWARD, "norm", level_training, l2_reference};

void generate_weighted(CaseSink& sink, const OpUnderTest& what, quern_dtype dtype, std::int64_t n) {
  const bool layer = what.op == QUERN_OP_LAYER_NORM_BACKWARD;
  const ValueSpec weight = input(QUERN_F32, {n}, DataKind::uniform), sums = output(QUERN_F32, {n}), added = state(QUERN_F32, {n});
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec w, ValueSpec dy, std::vector<ValueSpec> outputs, double epsilon,
                       double offset = 0) {
    const bool accumulate = outputs.size() > 1 && outputs.back().kind == QUERN_VALUE_STATE;
    std::vector<Attribute> attributes{{QUERN_KEY_EPSILON, epsilon}};
    if (offset != 0) attributes.push_back({QUERN_KEY_WEIGHT_OFFSET, offset});
    if (accumulate) attributes.push_back({QUERN_KEY_ACCUMULATE, 1});
    sink.add(make_case(what, profile, {std::move(x), std::move(w), std::move(dy)}, std::move(outputs), std::move(attributes)));
  };
  const auto outputs_of = [&](ValueSpec dx, const ValueSpec& sum) {
    std::vector<ValueSpec> outputs{std::move(dx), sum};
    if (layer) outputs.push_back(sum);
    return outputs;
  };
  for (const double epsilon : {1e-6, 1e-5, 1e-1})
    for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy}) {
      const ValueSpec x = input(dtype, {5, n}, data), dy = input(dtype, {5, n}), dx = output(dtype, {5, n});
      const bool quick = n <= 576 ? data == DataKind::heavy || epsilon == 1e-5 : epsilon == 1e-5 && data == DataKind::positive;
      add(quick ? Profile::quick : Profile::full, x, weight, dy, outputs_of(dx, sums), epsilon);
      if (data != DataKind::gaussian || epsilon != 1e-5) continue;
      add(n <= 64 ? Profile::quick : Profile::full, x, weight, dy, outputs_of(dx, added), epsilon);
      add(Profile::full, x, weight, dy, {dx}, epsilon);
      add(n == 31 ? Profile::quick : Profile::full, x, absent(), dy, {dx}, epsilon);
      if (!layer) add(n == 576 ? Profile::quick : Profile::full, x, weight, dy, outputs_of(dx, sums), epsilon, 1);
      if (layer) add(n == 31 ? Profile::quick : Profile::full, x, absent(), dy, {dx, absent(), sums}, epsilon);
      if (layer) add(Profile::full, x, weight, dy, {dx, sums}, epsilon);
    }
  add(Profile::quick, filled(input(dtype, {7, n}), "edge_rows", fill_edge_rows), weight, input(dtype, {7, n}), {output(dtype, {7, n})},
      1e-5);
  const Dims dims{3, 4, n};
  const ValueSpec x = input(dtype, dims), dy = input(dtype, dims, DataKind::uniform), dx = output(dtype, dims);
  add(Profile::quick, x, weight, dy, outputs_of(in_place(x, 0), sums), 1e-5);
  add(n <= 576 ? Profile::quick : Profile::full, x, weight, dy, outputs_of(in_place(dy, 2), sums), 1e-5);
  add(n <= 64 ? Profile::quick : Profile::full, input(dtype, dims, DataKind::gaussian, rows_apart(3)), weight, dy,
      outputs_of(output(dtype, dims, rows_apart(1)), sums), 1e-5);
  add(Profile::full, input(dtype, dims, DataKind::gaussian, ordered({1, 0, 2})), weight,
      input(dtype, dims, DataKind::uniform, ordered({1, 0, 2})), outputs_of(dx, sums), 1e-5);
  for (const std::int64_t rows : {1, 33, 129, 513})
    if (rows * n <= 600000)
      add(rows == 129 && n == 64 ? Profile::quick : Profile::full, input(dtype, {rows, n}), weight, input(dtype, {rows, n}),
          outputs_of(output(dtype, {rows, n}), sums), 1e-5);
}

void generate_l2(CaseSink& sink, quern_dtype dtype, std::int64_t n) {
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec dy, ValueSpec dx, double epsilon) {
    sink.add(make_case(l2_op, profile, {std::move(x), std::move(dy)}, {std::move(dx)}, {{QUERN_KEY_EPSILON, epsilon}}));
  };
  for (const double epsilon : {1e-12, 1e-5, 1e4})  // the last is longer than every row
    for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy})
      add(n <= 576 && data != DataKind::gaussian ? Profile::quick : Profile::full, input(dtype, {5, n}, data), input(dtype, {5, n}),
          output(dtype, {5, n}), epsilon);
  add(Profile::quick, filled(input(dtype, {7, n}), "edge_rows", fill_edge_rows), input(dtype, {7, n}), output(dtype, {7, n}), 1e-8);
  const Dims dims{3, 4, n};
  const ValueSpec x = input(dtype, dims), dy = input(dtype, dims, DataKind::uniform);
  add(Profile::quick, x, dy, in_place(x, 0), 1e-5);
  add(Profile::full, x, dy, in_place(dy, 1), 1e-5);
  add(n <= 64 ? Profile::quick : Profile::full, input(dtype, dims, DataKind::gaussian, rows_apart(3)), dy,
      output(dtype, dims, rows_apart(1)), 1e-5);
  add(Profile::full, x, input(dtype, dims, DataKind::uniform, ordered({1, 0, 2})), output(dtype, dims), 1e-5);
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {1, 31, 64, 576, 2048, 4096, 5120, 11008}) {
      generate_weighted(sink, rms_op, dtype, n);
      generate_weighted(sink, layer_op, dtype, n);
      generate_l2(sink, dtype, n);
    }
  // No row: sums are 0, or what was there.
  for (const OpUnderTest& what : {rms_op, layer_op})
    sink.add(make_case(what, Profile::quick, {input(QUERN_F32, {0, 64}), input(QUERN_F32, {64}), input(QUERN_F32, {0, 64})},
                       {output(QUERN_F32, {0, 64}), output(QUERN_F32, {64})}, {{QUERN_KEY_EPSILON, 1e-5}}));
}

}  // namespace

extern const Family norms_backward_family;
const Family norms_backward_family = {"norms_backward", generate};

}  // namespace quern::conformance
