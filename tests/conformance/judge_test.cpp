// The judge: what it must never let pass, and what it must not reject.
#include "data/counter_random.hpp"
#include "data/subnormals.hpp"
#include "judge/judge.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quern::conformance {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor tensor(const std::vector<double>& values, quern_dtype dtype = QUERN_F32) {
  Tensor t(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<std::int64_t>(i), values[i]);
  return t;
}

ExpectedOutput bounded(const std::vector<double>& values, double bound) {
  ExpectedOutput e;
  e.rule = Rule::bounded;
  for (const double v : values) e.add(v, bound);
  return e;
}

ExpectedOutput by_value(const std::vector<double>& values) {
  ExpectedOutput e;
  e.rule = Rule::value;
  e.value = values;
  return e;
}

Status verdict(const ExpectedOutput& e, const Tensor& y, Numerics numerics = Numerics::exact) { return judge(e, y, numerics).status; }

TEST(Judge, ZeroComparisonsAreUnknown) {
  EXPECT_EQ(verdict(bounded({}, 0), tensor({})), Status::unknown);
  ExpectedOutput bits;
  bits.rule = Rule::bits;
  EXPECT_EQ(verdict(bits, tensor({})), Status::unknown);
}

TEST(Judge, AReferenceThatSaidNothingIsUnknown) { EXPECT_EQ(verdict({}, tensor({1})), Status::unknown); }

TEST(Judge, AnotherElementCountIsUnknown) { EXPECT_EQ(verdict(bounded({1, 2}, 1), tensor({1, 2, 3})), Status::unknown); }

TEST(Judge, AnAccumulationBoundOfFastNumericsHoldsInFastNumericsAlone) {
  ExpectedOutput e = bounded({0.0, 1.0}, 0.0);
  e.deviation = {0.0, 0.0};
  e.fast_bound = {1e-6, 0.0};
  EXPECT_EQ(verdict(e, tensor({1e-7, 1.0}), Numerics::fast), Status::pass);
  EXPECT_EQ(verdict(e, tensor({1e-7, 1.0}), Numerics::exact), Status::fail);
  EXPECT_EQ(verdict(e, tensor({2e-6, 1.0}), Numerics::fast), Status::fail);
  EXPECT_EQ(verdict(e, tensor({0.0, 1.0 + 1e-6}), Numerics::fast), Status::fail);
  e.fast_bound = {1e-6};
  EXPECT_EQ(verdict(e, tensor({0.0, 1.0})), Status::unknown);
}

TEST(Judge, SpecialValuesAreComparedBeforeArithmetic) {
  const double kinds[] = {nan, inf, -inf, 0.0, -0.0, 0x1p-149, 1.0};
  for (const double r : kinds)
    for (const double y : kinds) {
      const bool same = std::isnan(r) ? std::isnan(y) : r == y;
      EXPECT_EQ(verdict(by_value({r}), tensor({y})) == Status::pass, same) << r << " " << y;
      const bool near = same || (std::isfinite(r) && std::isfinite(y) && std::fabs(r - y) <= 0.25);
      EXPECT_EQ(verdict(bounded({r}, 0.25), tensor({y})) == Status::pass, near) << r << " " << y;
    }
}

TEST(Judge, AnInfiniteResultMayBeNanWhereInputsAreConverted) {
  ExpectedOutput e = bounded({inf}, 0);
  EXPECT_EQ(verdict(e, tensor({nan}), Numerics::fast), Status::fail);  // nothing is converted
  e.deviation = {nan};
  EXPECT_EQ(verdict(e, tensor({nan}), Numerics::fast), Status::pass);
  EXPECT_EQ(verdict(e, tensor({inf}), Numerics::fast), Status::pass);
  EXPECT_EQ(verdict(e, tensor({-inf}), Numerics::fast), Status::fail);
  EXPECT_EQ(verdict(e, tensor({65504}), Numerics::fast), Status::fail);
  EXPECT_EQ(verdict(e, tensor({nan}), Numerics::exact), Status::fail);
  e.value = {nan};
  EXPECT_EQ(verdict(e, tensor({inf}), Numerics::fast), Status::fail);
  e = bounded({1}, 0);
  e.deviation = {0.5};
  EXPECT_EQ(verdict(e, tensor({nan}), Numerics::fast), Status::fail);
}

TEST(Judge, AnInfinityIsRightWhereABoundReachesBeyondTheDtypeOnItsSide) {
  EXPECT_EQ(verdict(bounded({65000}, 1000), tensor({inf}, QUERN_F16)), Status::pass);
  EXPECT_EQ(verdict(bounded({65000}, 1000), tensor({-inf}, QUERN_F16)), Status::fail);
  EXPECT_EQ(verdict(bounded({1e30}, 2e30), tensor({-inf}, QUERN_F16)), Status::pass);
  EXPECT_EQ(verdict(bounded({1e30}, 2e30), tensor({inf}, QUERN_F16)), Status::pass);
  EXPECT_EQ(verdict(bounded({60000}, 1000), tensor({inf}, QUERN_F16)), Status::fail);
}

Status declared(const ExpectedOutput& e, const Tensor& y, const ExpectedOutput& flushed) {
  return judge(e, y, Numerics::exact, &flushed).status;
}

TEST(Judge, ADeclaredFlushGrantsZerosBelowTheNormalsAndNothingElse) {
  const double least = 0x1p-126, below = least - 0x1p-149;
  const ExpectedOutput subnormal = by_value({below}), normal = by_value({least}), sum = by_value({least + below});
  EXPECT_EQ(verdict(subnormal, tensor({0.0})), Status::fail);
  EXPECT_EQ(declared(subnormal, tensor({0.0}), subnormal), Status::pass);
  EXPECT_EQ(declared(subnormal, tensor({-0.0}), subnormal), Status::pass);
  EXPECT_EQ(declared(subnormal, tensor({below}), subnormal), Status::pass);  // which it need not do
  EXPECT_EQ(declared(subnormal, tensor({least}), subnormal), Status::fail);
  EXPECT_EQ(declared(subnormal, tensor({below - 0x1p-149}), subnormal), Status::fail);
  EXPECT_EQ(declared(normal, tensor({0.0}), normal), Status::fail);
  // A subnormal operand taken for 0: least + below becomes least.
  EXPECT_EQ(verdict(sum, tensor({least})), Status::fail);
  EXPECT_EQ(declared(sum, tensor({least}), normal), Status::pass);
  EXPECT_EQ(declared(sum, tensor({least + below}), normal), Status::pass);
  EXPECT_EQ(declared(sum, tensor({0.0}), normal), Status::fail);
  EXPECT_EQ(declared(sum, tensor({least + 0x1p-149}), normal), Status::fail);
  // A divisor taken for 0.
  EXPECT_EQ(declared(bounded({1e38}, 1e32), tensor({inf}), bounded({inf}, 0)), Status::pass);
  EXPECT_EQ(declared(bounded({1e38}, 1e32), tensor({-inf}), bounded({inf}, 0)), Status::fail);
  EXPECT_EQ(declared(bounded({below}, 0x1p-149), tensor({0.0}), bounded({0}, 0)), Status::pass);
}

TEST(Judge, ADeclaredFlushIsOfF32AndBf16Alone) {
  EXPECT_EQ(declared(by_value({0x1p-130}), tensor({0.0}, QUERN_BF16), by_value({0x1p-130})), Status::pass);
  EXPECT_EQ(declared(by_value({0x1p-20}), tensor({0.0}, QUERN_F16), by_value({0x1p-20})), Status::fail);
  EXPECT_EQ(declared(by_value({1}), tensor({0}, QUERN_I32), by_value({0})), Status::fail);
  ExpectedOutput copy;
  copy.rule = Rule::bits;
  const Tensor x = tensor({0x1p-149}), zero = tensor({0.0});
  copy.bytes.assign(x.bytes().begin(), x.bytes().end());
  EXPECT_EQ(declared(copy, x, copy), Status::pass);
  EXPECT_EQ(declared(copy, zero, copy), Status::fail);
}

TEST(Judge, ADeclaredFlushKeepsTheSignThatTheRuleWants) {
  ExpectedOutput e = by_value({-0x1p-149});
  e.zero_sign = true;
  EXPECT_EQ(declared(e, tensor({-0.0}), e), Status::pass);
  EXPECT_EQ(declared(e, tensor({0.0}), e), Status::fail);
}

TEST(Judge, AFlushedReferenceOfOtherElementsIsUnknown) {
  EXPECT_EQ(declared(by_value({1, 2}), tensor({1, 3}), by_value({1})), Status::unknown);
  EXPECT_EQ(declared(by_value({1}), tensor({2}), bounded({1}, 0)), Status::unknown);
}

TEST(Judge, SubnormalInputsAreThoseOfF32AndBf16) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16}) {
    const Tensor x = tensor({0x1p-130, -0x1p-130, 0.0, 0x1p-126, -1.0, nan, inf}, dtype), flushed = without_subnormals(x);
    EXPECT_TRUE(holds_subnormals(x));
    EXPECT_FALSE(holds_subnormals(flushed));
    EXPECT_EQ(x.at(0), 0x1p-130);  // a copy
    EXPECT_EQ(flushed.at(0), 0.0);
    EXPECT_TRUE(flushed.at(1) == 0.0 && std::signbit(flushed.at(1)));
    EXPECT_EQ(flushed.at(3), 0x1p-126);
    EXPECT_EQ(flushed.at(4), -1.0);
    EXPECT_TRUE(std::isnan(flushed.at(5)) && std::isinf(flushed.at(6)));
  }
  EXPECT_FALSE(holds_subnormals(tensor({0x1p-20}, QUERN_F16)));
  EXPECT_FALSE(holds_subnormals(tensor({1}, QUERN_I32)));  // whose bits would be one
}

TEST(Judge, OneWrongElementAmongManyFails) {
  std::vector<double> r(2000, 1.0), y = r;
  y[1234] = 0.0;
  const Verdict v = judge(bounded(r, 1e-6), tensor(y), Numerics::exact);
  EXPECT_EQ(v.status, Status::fail);
  EXPECT_NE(v.text.find("element 1234"), std::string::npos) << v.text;
}

TEST(Judge, TheBoundItselfPassesAndTwiceTheBoundFails) {
  const double bound = 0x1p-10;
  EXPECT_EQ(verdict(bounded({1}, bound), tensor({1 + bound})), Status::pass);
  EXPECT_EQ(verdict(bounded({1}, bound), tensor({1 + 2 * bound})), Status::fail);
}

TEST(Judge, AValueIsRoundedThroughF32ToTheOutput) {
  const double r = 1.0 + 0x1p-12;  // between two numbers of f16: rounds to 1
  EXPECT_EQ(verdict(by_value({r}), tensor({1.0}, QUERN_F16)), Status::pass);
  EXPECT_EQ(verdict(by_value({r}), tensor({1.0 + 0x1p-10}, QUERN_F16)), Status::fail);
  EXPECT_EQ(verdict(by_value({65520}), tensor({inf}, QUERN_F16)), Status::pass);
}

TEST(Judge, TheSignOfZeroCountsWhereItIsAskedFor) {
  ExpectedOutput e = by_value({-0.0});
  EXPECT_EQ(verdict(e, tensor({0.0})), Status::pass);
  e.zero_sign = true;
  EXPECT_EQ(verdict(e, tensor({0.0})), Status::fail);
  EXPECT_EQ(verdict(e, tensor({-0.0})), Status::pass);
}

TEST(Judge, BitsSeeThePayloadOfANaN) {
  Tensor y = tensor({1, 2});
  ExpectedOutput e;
  e.rule = Rule::bits;
  e.bytes.assign(y.bytes().begin(), y.bytes().end());
  EXPECT_EQ(verdict(e, y), Status::pass);
  y.bytes()[5] ^= std::byte{1};
  EXPECT_EQ(verdict(e, y), Status::fail);
}

TEST(Judge, ConversionsWidenTheBoundInFastNumericsOnly) {
  ExpectedOutput e = bounded({1}, 1e-7);
  e.deviation = {0.01};
  EXPECT_EQ(verdict(e, tensor({1.05})), Status::fail);
  EXPECT_EQ(verdict(e, tensor({1.05}), Numerics::fast), Status::pass);
  EXPECT_EQ(verdict(e, tensor({1.2}), Numerics::fast), Status::fail);
}

/// 4096 outputs of deviation 0.03 around values of size 1, with independent errors.
struct Noisy {
  ExpectedOutput expected;
  std::vector<double> y;
  explicit Noisy(double gain, double noise) {
    const CounterRandom random = CounterRandom::of("noisy");
    expected.rule = Rule::bounded;
    expected.independent = true;
    for (std::uint64_t i = 0; i < 4096; ++i) {
      const double r = random.gaussian(i);
      expected.add(r, 1e-7);
      expected.deviation.push_back(0.03);
      y.push_back(gain * r + noise * 0.03 * random.stream(1).gaussian(i));
    }
  }
};

/// One activation's rounding in 129 products: their errors are one error.
TEST(Judge, TheSlopeAllowsForConversionsThatOutputsShare) {
  const CounterRandom random = CounterRandom::of("shared");
  ExpectedOutput expected;
  expected.rule = Rule::bounded;
  expected.independent = true;
  std::vector<double> y;
  for (std::uint64_t row = 0; row < 16; ++row) {
    const double a = random.gaussian(row), rounded = a * (1 + 0.003);
    for (std::uint64_t column = 0; column < 129; ++column) {
      const double b = random.stream(1).gaussian(column);
      expected.add(a * b, 1e-9);
      expected.deviation.push_back(std::fabs(a * b) * 0x1p-8 / std::sqrt(3.0) + 1e-9);
      y.push_back(rounded * b);
    }
  }
  EXPECT_EQ(verdict(expected, tensor(y), Numerics::fast), Status::fail);
  expected.sharing = 1 + 3 * 129;
  EXPECT_EQ(verdict(expected, tensor(y), Numerics::fast), Status::pass);
}

/// Five weights whose roundings meet 4,000 rows: more rows do not make their mean smaller.
TEST(Judge, TheSlopeAllowsForRoundedWeightsThatAllRowsShare) {
  const CounterRandom random = CounterRandom::of("weights");
  ExpectedOutput expected;
  expected.rule = Rule::bounded;
  expected.independent = true;
  constexpr double step = 0x1p-8, rounding[] = {0.9, 0.3, 0.8, -0.2, 0.6};  // of a step
  std::vector<double> y, gained;
  for (std::uint64_t row = 0; row < 4000; ++row) {
    const double a = random.gaussian(row);
    for (const double d : rounding) {
      expected.add(a, 1e-9);
      expected.deviation.push_back(0.007);
      y.push_back(a * (1 + d * step));
      gained.push_back(a * (1 + 0.02));
    }
  }
  EXPECT_EQ(verdict(expected, tensor(y), Numerics::fast), Status::fail);
  expected.gain_variance = step * step / 3.0 / 5.0;
  EXPECT_EQ(verdict(expected, tensor(y), Numerics::fast), Status::pass);
  EXPECT_EQ(verdict(expected, tensor(gained), Numerics::fast), Status::fail);
}

TEST(Judge, TheSlopeCatchesAGainThatEachElementWouldPass) {
  const Noisy honest(1.0, 1.0), gained(1.02, 1.0);
  EXPECT_EQ(verdict(honest.expected, tensor(honest.y), Numerics::fast), Status::pass);
  const Verdict v = judge(gained.expected, tensor(gained.y), Numerics::fast);
  EXPECT_EQ(v.status, Status::fail);
  EXPECT_NE(v.text.find("slope"), std::string::npos) << v.text;
}

TEST(Judge, ChiSquareCatchesErrorsThatAreTooLargeTogether) {
  const Noisy doubled(1.0, 1.5);  // no element beyond 8 deviations
  const Verdict v = judge(doubled.expected, tensor(doubled.y), Numerics::fast);
  EXPECT_EQ(v.status, Status::fail);
  EXPECT_NE(v.text.find("chi-square"), std::string::npos) << v.text;
}

TEST(Judge, SaysWhichTierASumAttains) {
  ExpectedOutput e;
  e.rule = Rule::bounded;
  e.length = 4096;
  e.scale = {1.0};
  e.add(1.0, accumulation_bound(Tier::t2, e.length, 1.0));
  EXPECT_EQ(judge(e, tensor({1.0 + 100 * u32}), Numerics::exact).tier, "T1");  // 2 sqrt(4096) + 8 = 136
  EXPECT_EQ(judge(e, tensor({1.0 + 300 * u32}), Numerics::exact).tier, "T2");
}

TEST(Verdict, MergingTakesTheWorse) {
  Verdict v{Status::pass, {}, 0.5, 10, "T1"};
  v.merge({Status::unsupported, "no kernel", 0, 0, {}});
  EXPECT_EQ(v.status, Status::unsupported);
  v.merge({Status::crash, "signal 11", 0, 0, {}});
  v.merge({Status::pass, {}, 0.25, 5, {}});
  EXPECT_EQ(v.status, Status::crash);
  EXPECT_EQ(v.text, "signal 11");
  EXPECT_EQ(v.compared, 15u);
}

}  // namespace
}  // namespace quern::conformance
