// layer_norm l2_norm add_rms_norm. (rms_norm has a file of its own.)
//
// Bounds, n a row's length, u = 2^-24, S1 = mean |x| of the row. A blocked sum of n terms is off by (2 sqrt(n) + 8) u of the sum of
// sizes.
//   layer_norm    the mean is off by d = (2 sqrt(n) + 8) u S1, and x - mean by u |x - mean| more. That moves the variance by its own sum,
//                 (2 sqrt(n) + 8) u v, twice u v for the squares, and by d^2 (what is linear in d cancels, up to u): the root by half of
//                 the relative change. So |w| r (d + u |c|) with r = 1 / sqrt(v + e), and |w c| r of the root's, of a reciprocal root of
//                 2 ulp, of the products; u |bias| and u |y| for the sum.
//   l2_norm       (2 sqrt(n) + 8) u |y|: half of the sum's, a root and a division of 3 and 2.5 ulp.
//   add_rms_norm  sum is one f32 addition, stored; y is judged as rms_norm (ops/rms_norm.cpp) of the stored sum or of the sum in f32: for
//   a
//                 narrow dtype that moves y by 2 u of that dtype times |y|, or by half its subnormal step times |w| / rms.
#include "ops/hard_values.hpp"
#include "ops/make_case.hpp"

#include <limits>

namespace quern::conformance {
namespace {

double sum_error(double n) { return (2.0 * std::sqrt(n) + 8.0) * u32; }

void layer_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], &bias = call.inputs[2];
  const std::int64_t n = x.dim_from_end(0);
  const auto count = static_cast<double>(n);
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t first = 0; first < x.count(); first += n) {
    x.read(first, n, row.data());
    double mean = 0, size = 0, variance = 0;
    for (const double v : row) mean += v / count, size += std::fabs(v) / count;
    for (const double v : row) variance += (v - mean) * (v - mean) / count;
    const double d = sum_error(count) * size, inverse = 1.0 / std::sqrt(variance + epsilon);
    const double root = 0.5 * ((sum_error(count) + 2.0 * u32) * variance + d * d + u32 * epsilon) * inverse * inverse + 4.0 * u32;
    for (std::int64_t i = 0; i < n; ++i) {
      const double c = row[static_cast<std::size_t>(i)] - mean, w = weight.absent() ? 1.0 : weight.at(i),
                   b = bias.absent() ? 0.0 : bias.at(i);
      const double r = w * c * inverse + b;
      const double bound =
          std::fabs(w) * inverse * (d + u32 * std::fabs(c)) + std::fabs(w * c) * inverse * (root + 3.0 * u32) + u32 * std::fabs(b);
      y.add(r, bound + half_ulp_f32(r) + narrow_store(to, r) + 0x1p-150 * (inverse + std::fabs(w)));
    }
  }
}

void l2_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const std::int64_t n = x.dim_from_end(0);
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t first = 0; first < x.count(); first += n) {
    x.read(first, n, row.data());
    double sum = 0;
    for (const double v : row) sum += v * v;
    const double length = std::sqrt(sum), divisor = length < epsilon ? epsilon : length;  // NaN stays
    for (const double v : row) {
      const double r = v / divisor;
      y.add(r, sum_error(static_cast<double>(n)) * std::fabs(r) + narrow_store(to, r) + 0x1p-150 * (1.0 + 1.0 / divisor));
    }
  }
}

void add_rms_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &weight = call.inputs[2];
  const std::int64_t n = a.dim_from_end(0);
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0), offset = call.attribute(QUERN_KEY_WEIGHT_OFFSET, 0);
  const quern_dtype to = call.what.outputs[0].dtype;
  const Tensor stored(to, {n});
  const double narrow = to == QUERN_F32 ? 0.0 : 2.0 * (to == QUERN_F16 ? u16 : ub16);
  ExpectedOutput &sum = expected.outputs[0], &y = expected.outputs[1];
  sum.rule = Rule::value;
  sum.zero_sign = true;
  y.rule = Rule::bounded;
  for (std::int64_t first = 0; first < a.count(); first += n) {
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double exact = a.at(first + i) + b.at(first + i);
      sum.add(exact, 0);
      stored.set(i, static_cast<double>(static_cast<float>(exact)));
      squares += stored.at(i) * stored.at(i);
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    for (std::int64_t i = 0; i < n; ++i) {
      const double w = weight.at(i), r = (w + offset) * stored.at(i) * factor;
      const double of_offset = offset == 0 ? 0.0 : u32 * (std::fabs(w) + std::fabs(offset)) * std::fabs(stored.at(i)) * factor;
      const double least = to == QUERN_F16 ? 0x1p-25 * std::fabs(w + offset) * factor : 0.0;
      y.add(r, (sum_error(static_cast<double>(n)) + narrow) * std::fabs(r) + of_offset + least +
                   0x1p-150 * (factor + std::fabs(w) + std::fabs(offset)));
    }
  }
}

/// Row 0 zeros, 1 subnormals, 2 a NaN, 3 large numbers (the largest of f16), 4 one outlier, 5 all the same and far from 0: no variance.
void fill_edge_rows(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n, column = i % n;
    const double usual = random.gaussian(static_cast<std::uint64_t>(i));
    double v = usual;
    if (row == 0) v = 0.0;
    if (row == 1) v = usual * (x.dtype() == QUERN_F16 ? 0x1p-22 : 0x1p-140);
    if (row == 2 && column == n / 2) v = std::numeric_limits<double>::quiet_NaN();
    if (row == 3) v = x.dtype() == QUERN_F16 ? std::copysign(65504.0, usual) : usual * 1e16;
    if (row == 4 && column == n - 1) v = 1e4;
    if (row == 5) v = 1000.0;
    x.set(i, v);
  }
}

constexpr OpUnderTest layer_op{QUERN_OP_LAYER_NORM, "norm", level_inference, layer_reference};
constexpr OpUnderTest l2_op{QUERN_OP_L2_NORM, "norm", level_inference, l2_reference};
constexpr OpUnderTest add_rms_op{QUERN_OP_ADD_RMS_NORM, "norm", level_inference, add_rms_reference};

std::vector<Attribute> with_epsilon(double epsilon, double offset = 0) {
  std::vector<Attribute> attributes{{QUERN_KEY_EPSILON, epsilon}};
  if (offset != 0) attributes.push_back({QUERN_KEY_WEIGHT_OFFSET, offset});
  return attributes;
}

void generate_layer(CaseSink& sink, quern_dtype dtype, std::int64_t n) {
  const ValueSpec weight = constant(QUERN_F32, {n}, DataKind::uniform), bias = constant(QUERN_F32, {n});
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec w, ValueSpec b, ValueSpec y, double epsilon) {
    sink.add(make_case(layer_op, profile, {std::move(x), std::move(w), std::move(b)}, {std::move(y)}, with_epsilon(epsilon)));
  };
  for (const double epsilon : {1e-6, 1e-5, 1e-1})
    for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy}) {
      const ValueSpec x = input(dtype, {5, n}, data), y = output(dtype, {5, n});
      const bool quick = n <= 576 ? data != DataKind::gaussian || epsilon == 1e-5 : epsilon == 1e-5 && data == DataKind::positive;
      add(quick ? Profile::quick : Profile::full, x, weight, bias, y, epsilon);
      if (data != DataKind::heavy || epsilon != 1e-5) continue;
      add(Profile::full, x, weight, absent(), y, epsilon);
      add(Profile::full, x, absent(), bias, y, epsilon);
      add(n == 576 ? Profile::quick : Profile::full, x, absent(), absent(), y, epsilon);
    }
  add(Profile::quick, filled(input(dtype, {8, n}), "edge_rows", fill_edge_rows), weight, bias, output(dtype, {8, n}), 1e-5);
  add(Profile::full, filled(input(dtype, {8, n}), "edge_rows", fill_edge_rows), absent(), absent(), output(dtype, {8, n}), 1e-6);
  const Dims dims{3, 4, n};
  const ValueSpec x = input(dtype, dims);
  add(Profile::quick, x, weight, bias, in_place(x, 0), 1e-5);
  add(n <= 64 ? Profile::quick : Profile::full, input(dtype, dims, DataKind::gaussian, rows_apart(3)), weight, bias,
      output(dtype, dims, rows_apart(1)), 1e-5);
  add(n <= 64 ? Profile::quick : Profile::full, input(dtype, dims, DataKind::gaussian, ordered({1, 0, 2})), weight, bias,
      output(dtype, dims), 1e-5);
  add(Profile::full, input(dtype, dims, DataKind::gaussian, shifted()), weight, bias, output(dtype, dims, shifted()), 1e-5);
  add(Profile::full, input(dtype, {33, n}), weight, bias, output(dtype, {33, n}), 1e-5);
}

void generate_l2(CaseSink& sink, quern_dtype dtype, std::int64_t n) {
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec y, double epsilon) {
    sink.add(make_case(l2_op, profile, {std::move(x)}, {std::move(y)}, with_epsilon(epsilon)));
  };
  for (const double epsilon : {1e-12, 1e-6, 1e-1, 1e4})  // the last is longer than every row
    for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy})
      add(n <= 576 && data != DataKind::gaussian ? Profile::quick : Profile::full, input(dtype, {5, n}, data), output(dtype, {5, n}),
          epsilon);
  add(Profile::quick, filled(input(dtype, {8, n}), "edge_rows", fill_edge_rows), output(dtype, {8, n}), 1e-6);
  const Dims dims{3, 4, n};
  const ValueSpec x = input(dtype, dims);
  add(Profile::quick, x, in_place(x, 0), 1e-5);
  add(n <= 64 ? Profile::quick : Profile::full, input(dtype, dims, DataKind::gaussian, rows_apart(3)), output(dtype, dims, rows_apart(1)),
      1e-5);
  add(Profile::full, input(dtype, dims, DataKind::gaussian, ordered({1, 0, 2})), output(dtype, dims), 1e-5);
  add(Profile::full, input(dtype, {129, n}, DataKind::gaussian, shifted()), output(dtype, {129, n}, shifted()), 1e-5);
}

void generate_add_rms(CaseSink& sink, quern_dtype dtype, std::int64_t n) {
  const ValueSpec weight = constant(QUERN_F32, {n}, DataKind::uniform);
  const auto add = [&](Profile profile, ValueSpec a, ValueSpec b, ValueSpec sum, ValueSpec y, double epsilon, double offset) {
    sink.add(make_case(add_rms_op, profile, {std::move(a), std::move(b), weight}, {std::move(sum), std::move(y)},
                       with_epsilon(epsilon, offset)));
  };
  for (const double epsilon : {1e-6, 1e-5, 1e-1})
    for (const double offset : {0.0, 1.0})
      for (const DataKind data : {DataKind::gaussian, DataKind::heavy}) {
        const bool quick = n <= 576 ? data == DataKind::heavy : epsilon == 1e-5 && data == DataKind::heavy && offset == 0;
        add(quick ? Profile::quick : Profile::full, input(dtype, {5, n}, data), input(dtype, {5, n}, data), output(dtype, {5, n}),
            output(dtype, {5, n}), epsilon, offset);
      }
  const Dims dims{3, 4, n};
  const ValueSpec x = input(dtype, dims), y = output(dtype, dims);
  add(Profile::quick, filled(input(dtype, {7, n}), "edge_rows", fill_edge_rows), input(dtype, {7, n}), output(dtype, {7, n}),
      output(dtype, {7, n}), 1e-5, 0);
  add(Profile::quick, x, x, in_place(x, 0), y, 1e-5, 0);  // the residual stream
  add(Profile::full, x, x, in_place(x, 1), y, 1e-5, 0);
  add(Profile::full, x, x, y, in_place(x, 1), 1e-5, 0);
  add(n <= 64 ? Profile::quick : Profile::full, input(dtype, dims, DataKind::gaussian, rows_apart(3)), x,
      output(dtype, dims, rows_apart(1)), output(dtype, dims, rows_apart(2)), 1e-5, 0);
  add(Profile::full, x, input(dtype, dims, DataKind::gaussian, ordered({1, 0, 2})), y, y, 1e-5, 1);
  for (const std::int64_t rows : {1, 33})
    add(Profile::full, input(dtype, {rows, n}), input(dtype, {rows, n}), output(dtype, {rows, n}), output(dtype, {rows, n}), 1e-5, 0);
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {1, 31, 64, 576, 2048, 4096, 5120, 11008}) {
      generate_layer(sink, dtype, n);
      generate_l2(sink, dtype, n);
      generate_add_rms(sink, dtype, n);
    }
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {33, 1025}) {  // infinities too: each row stands for itself
      const ValueSpec x = filled(input(dtype, {14, n}), "not_finite_rows", fill_not_finite_rows), y = output(dtype, {14, n});
      sink.add(make_case(layer_op, Profile::quick, {x, constant(QUERN_F32, {n}), constant(QUERN_F32, {n})}, {y}, with_epsilon(1e-5)));
      sink.add(make_case(l2_op, Profile::quick, {x}, {y}, with_epsilon(1e-6)));
      sink.add(make_case(add_rms_op, Profile::quick, {x, input(dtype, {14, n}), constant(QUERN_F32, {n})}, {y, y}, with_epsilon(1e-5)));
    }
  for (const OpUnderTest& what : {layer_op, l2_op})
    sink.add(make_case(what, Profile::quick, {input(QUERN_F32, {0, 64})}, {output(QUERN_F32, {0, 64})}, with_epsilon(1e-5)));
}

}  // namespace

extern const Family norms_family;
const Family norms_family = {"norms", generate};

}  // namespace quern::conformance
