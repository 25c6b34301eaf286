// grad_norm: the root of the sum of squares over all inputs, accumulated in f64, and whether every element is finite.
//
// Bound: n additions in f64 of squares that f64 has exactly, 2 n 2^-53 relatively (half of it after the root), and the store. Sums whose
// squares are beyond f32 either way are part of it: f32 accumulation is off by all.
#include "ops/given.hpp"

#include <limits>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  double sum = 0, count = 0;
  bool finite = true;
  for (const Tensor& x : call.inputs) {
    for (const double v : x.values()) {
      sum += v * v;
      finite = finite && std::isfinite(v);
    }
    count += static_cast<double>(x.count());
  }
  ExpectedOutput& norm = expected.outputs[0];
  norm.rule = Rule::bounded;
  norm.add(std::sqrt(sum), count * 0x1p-53 * std::sqrt(sum));
  expected.outputs[1].rule = Rule::value;
  expected.outputs[1].add(finite ? 1 : 0, 0);
}

void fill_size(const Tensor& x, const CounterRandom& random, double size) {
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, size * random.gaussian(static_cast<std::uint64_t>(i)));
}

void generate(CaseSink& sink) {
  const auto add = [&](Profile profile, std::vector<ValueSpec> inputs, const char* note = "") {
    Case c;
    c.group = "optimiser";
    c.op = QUERN_OP_GRAD_NORM;
    c.profile = profile;
    c.level = level_training;
    c.inputs = std::move(inputs);
    c.outputs = {output(QUERN_F32, {1}), output(QUERN_I32, {1})};
    c.note = note;
    c.reference = reference;
    sink.add(std::move(c));
  };
  for (const quern_dtype dtype : float_dtypes) {
    for (const Dims& dims : {Dims{1}, {31}, {257}, {7, 65}, {3, 4, 33}, {513, 129}, {1025, 1023}})
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot})
        add(element_count(dims) < 2000 ? Profile::quick : Profile::full, {input(dtype, dims, data)});
    for (const DataKind data : {DataKind::gaussian, DataKind::positive}) {
      add(Profile::quick, {input(dtype, {5, 33}, data), input(QUERN_F32, {257}, data), input(QUERN_BF16, {3, 3, 3}, data)});
      add(Profile::quick, {input(dtype, {2000}, data), input(dtype, {1}, data), input(dtype, {0, 5}, data),
                           input(QUERN_F16, {64, 64}, data), input(dtype, {31}, data)});
    }
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
      add(Profile::quick, {input(dtype, {9, 33}, DataKind::gaussian, layout), input(dtype, {5})});
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
      std::vector<double> values(300, 0.5);
      values[299] = bad;  // the last element of the last input
      const char* name = std::isnan(bad) ? "last_nan" : bad > 0 ? "last_inf" : "last_minus_inf";
      add(Profile::quick, {input(dtype, {40}), given(input(dtype, {300}), name, values)});
      add(Profile::quick, {given(input(dtype, {300}), name, values), input(dtype, {40})});
    }
    if (dtype == QUERN_F16) continue;
    add(Profile::quick,
        {filled(input(dtype, {1000}), "around_1e30", [](const Tensor& x, const CounterRandom& r) { fill_size(x, r, 1e30); })});
    add(Profile::quick,
        {filled(input(dtype, {1000}), "around_1e-30", [](const Tensor& x, const CounterRandom& r) { fill_size(x, r, 1e-30); })});
    add(Profile::quick, {filled(input(dtype, {1000}), "largest", [](const Tensor& x, const CounterRandom&) {
          for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, 3e38);  // finite, though its norm is not in f32
        })});
  }
  std::vector<ValueSpec> many;
  for (std::int64_t i = 0; i < 64; ++i) many.push_back(input(float_dtypes[static_cast<std::size_t>(i % 3)], {i + 1, 7}));
  add(Profile::quick, many, "many");
}

}  // namespace

extern const Family grad_norm_family;
const Family grad_norm_family = {"grad_norm", generate};

}  // namespace quern::conformance
