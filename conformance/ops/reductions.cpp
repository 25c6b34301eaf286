// sum mean max sum_rows count_equal norm.
//
// sum, sum_rows and mean are accumulations: T1 over n terms, and a division for mean. norm is relative: half of the sum of squares'
// error, its squares' own u, a root of 3 ulp (6 u): (sqrt(n) + 12) u. max and count_equal are exact. A NaN wins in all of them.
#include "ops/hard_values.hpp"
#include "ops/make_case.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The sum of `count` elements from `first` on, and of their sizes.
struct Sum {
  double value = 0, size = 0;
  Sum(const Tensor& x, std::int64_t first, std::int64_t count) {
    std::vector<double> part(4096);
    for (std::int64_t at = first; at < first + count;) {
      const std::int64_t here = std::min<std::int64_t>(4096, first + count - at);
      x.read(at, here, part.data());
      for (std::int64_t i = 0; i < here; ++i)
        value += part[static_cast<std::size_t>(i)], size += std::fabs(part[static_cast<std::size_t>(i)]);
      at += here;
    }
  }
};

void sum_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const bool rows = call.what.op == QUERN_OP_SUM_ROWS, mean = call.what.op == QUERN_OP_MEAN;
  const std::int64_t n = rows ? x.dim_from_end(0) : x.count();
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.length = static_cast<double>(n);
  for (std::int64_t row = 0; row < element_count(call.what.outputs[0].dims); ++row) {
    const Sum sum(x, row * n, n);
    const double divisor = mean ? static_cast<double>(n) : 1.0, r = sum.value / divisor;
    y.scale.push_back(sum.size / divisor);
    y.add(r, accumulation_bound(Tier::t1, y.length, sum.size / divisor) + (mean ? 2.5 * ulp_f32(r) : 0.0) + narrow_store(to, r));
  }
}

void norm_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const quern_dtype to = call.what.outputs[0].dtype;
  double squares = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) squares += x.at(i) * x.at(i);
  const double r = std::sqrt(squares);
  expected.outputs[0].rule = Rule::bounded;
  expected.outputs[0].add(r, (std::sqrt(static_cast<double>(x.count())) + 12.0) * u32 * r + narrow_store(to, r));
}

void max_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const std::int64_t n = x.dim_from_end(0);
  expected.outputs[0].rule = Rule::value;
  for (std::int64_t row = 0; row < element_count(call.what.outputs[0].dims); ++row) {
    double best = -infinity;
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i)
      if (!std::isnan(best) && !(x.at(i) <= best)) best = x.at(i);
    expected.outputs[0].add(best, 0);
  }
}

void count_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1];
  std::int64_t equal = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) equal += a.at(i) == b.at(i) ? 1 : 0;
  expected.outputs[0].rule = Rule::bits;
  expected.outputs[0].bytes.resize(sizeof equal);
  std::memcpy(expected.outputs[0].bytes.data(), &equal, sizeof equal);
}

constexpr OpUnderTest whole_ops[] = {{QUERN_OP_SUM, "reduction", level_all, sum_reference},
                                     {QUERN_OP_MEAN, "reduction", level_all, sum_reference},
                                     {QUERN_OP_NORM, "reduction", level_all, norm_reference}};
constexpr OpUnderTest max_op{QUERN_OP_MAX, "reduction", level_all, max_reference};
constexpr OpUnderTest sum_rows_op{QUERN_OP_SUM_ROWS, "reduction", level_all, sum_reference};
constexpr OpUnderTest count_op{QUERN_OP_COUNT_EQUAL, "reduction", level_all, count_reference};

/// Gaussian with one NaN or infinity in the middle.
ValueSpec with_one(ValueSpec x, const char* name, double special) {
  return filled(std::move(x), name, [special](const Tensor& t, const CounterRandom& random) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, i == t.count() / 2 ? special : random.gaussian(static_cast<std::uint64_t>(i)));
  });
}

void generate_whole(CaseSink& sink, quern_dtype dtype) {
  for (const OpUnderTest& what : whole_ops) {
    const auto add = [&](Profile profile, ValueSpec x, quern_dtype to) {
      sink.add(make_case(what, profile, {std::move(x)}, {output(to, {1})}));
    };
    for (const Dims& dims : {Dims{1}, Dims{31}, Dims{5, 31}, Dims{3, 4, 65}, Dims{4097}, Dims{17, 4099}, Dims{257, 1025}})
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::integers}) {
        const bool quick = element_count(dims) < 5000 && data != DataKind::exponents;
        add(quick || (dims[0] == 17 && data == DataKind::positive) ? Profile::quick : Profile::full, input(dtype, dims, data), dtype);
        if (dtype != QUERN_F32 && dims.size() == 1) add(Profile::full, input(dtype, dims, data), QUERN_F32);
      }
    for (const Layout& layout : {rows_apart(3), shifted(), ordered({1, 0, 2}), ordered({2, 0, 1})}) {
      add(Profile::quick, input(dtype, {3, 4, 65}, DataKind::positive, layout), dtype);
      add(Profile::full, input(dtype, {9, 5, 1041}, DataKind::gaussian, layout), dtype);
    }
    add(Profile::quick, input(dtype, {0, 5}), dtype);  // 0; a mean of nothing is NaN
    add(Profile::quick, with_one(input(dtype, {5, 257}), "a_nan", std::numeric_limits<double>::quiet_NaN()), dtype);
    add(Profile::quick, with_one(input(dtype, {5, 257}), "infinity", infinity), dtype);
    add(dtype == QUERN_F32 ? Profile::quick : Profile::full, input(dtype, {1 << 20}, DataKind::positive), dtype);
  }
  if (dtype != QUERN_F32) return;
  for (const OpUnderTest& what : whole_ops)
    sink.add(make_case(what, Profile::full, {input(dtype, {1 << 24}, DataKind::positive)}, {output(dtype, {1})}));
}

void generate_rows(CaseSink& sink, quern_dtype dtype) {
  for (const OpUnderTest& what : {max_op, sum_rows_op}) {
    const auto add = [&](Profile profile, ValueSpec x, const Layout& to = {}) {
      Dims dims = x.dims;
      if (what.op == QUERN_OP_MAX) dims.pop_back();
      else dims.back() = 1;
      const quern_dtype y = x.dtype;
      sink.add(make_case(what, profile, {std::move(x)}, {output(y, dims, to)}));
    };
    for (const std::int64_t n : {1, 2, 31, 33, 257, 1025, 4099, 151936})
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::specials}) {
        if (what.op == QUERN_OP_SUM_ROWS && data == DataKind::specials && n > 2)
          continue;  // infinities of both signs leave nothing to compare
        const bool quick = n <= 257 && data != DataKind::gaussian;
        add(quick || (n == 4099 && data == DataKind::positive) ? Profile::quick : Profile::full,
            input(dtype, {n > 10000 ? 2 : 7, n}, data));
      }
    add(Profile::quick, input(dtype, {33}));
    add(Profile::quick, input(dtype, {4, 0}));  // -inf and 0
    add(Profile::quick, input(dtype, {0, 4}));
    add(Profile::quick, with_one(input(dtype, {5, 257}), "a_nan", std::numeric_limits<double>::quiet_NaN()));
    add(Profile::quick, with_one(input(dtype, {5, 257}), "infinity", infinity));
    for (const std::int64_t n : {31, 257}) add(Profile::quick, filled(input(dtype, {14, n}), "not_finite_rows", fill_not_finite_rows));
    add(Profile::quick, filled(input(dtype, {10, 257}), "beyond_f16", fill_beyond_f16));
    for (const Layout& layout : {rows_apart(3), shifted(), ordered({1, 0, 2}), ordered({0, 2, 1}), ordered({2, 0, 1})}) {
      add(Profile::quick, input(dtype, {3, 4, 65}, DataKind::positive, layout));
      add(Profile::full, input(dtype, {9, 5, 1041}, DataKind::heavy, layout), what.op == QUERN_OP_MAX ? rows_apart(2) : shifted());
    }
    add(Profile::full, input(dtype, {1041, 33}));
  }
}

void generate_count(CaseSink& sink) {
  const auto all_bits = [](Dims dims, Layout layout) {
    return filled(input(QUERN_I32, std::move(dims), DataKind::uniform, std::move(layout)), "near_2_24",
                  [](const Tensor& t, const CounterRandom& random) {
                    for (std::int64_t i = 0; i < t.count(); ++i)
                      t.set(i, 16777216.0 +
                                   static_cast<double>(random.below(static_cast<std::uint64_t>(i), 3)));  // f32 would merge two of them
                  });
  };
  const auto add = [&](Profile profile, ValueSpec a, ValueSpec b) {
    sink.add(make_case(count_op, profile, {std::move(a), std::move(b)}, {output(QUERN_I64, {1})}));
  };
  for (const Dims& dims : {Dims{1}, Dims{31}, Dims{5, 31}, Dims{3, 4, 65}, Dims{4097}, Dims{257, 1025}, Dims{0, 7}}) {
    add(Profile::quick, input(QUERN_I32, dims), input(QUERN_I32, dims));
    add(Profile::quick, all_bits(dims, {}), all_bits(dims, {}));
    if (dims.size() < 2 || dims[0] == 0) continue;
    add(Profile::quick, input(QUERN_I32, dims, DataKind::integers, rows_apart(3)), input(QUERN_I32, dims));
    add(Profile::full, all_bits(dims, shifted()), all_bits(dims, rows_apart(1)));
  }
  add(Profile::quick, input(QUERN_I32, {3, 4, 65}, DataKind::integers, ordered({2, 0, 1})), input(QUERN_I32, {3, 4, 65}));
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes) {
    generate_whole(sink, dtype);
    generate_rows(sink, dtype);
  }
  generate_count(sink);
}

}  // namespace

extern const Family reductions_family;
const Family reductions_family = {"reductions", generate};

}  // namespace quern::conformance
