// The references: every quick case's reference accepts its own values, and rejects them with one element moved by four bounds.
#include "case_table/case_table.hpp"
#include "judge/judge.hpp"
#include "data/block_format.hpp"
#include "data/float_codes.hpp"
#include "ops/activation_reference.hpp"
#include "ops/matmul_reference.hpp"
#include "ops/random_uniform_reference.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace quern::conformance {
namespace {

/// What a perfect plugin would return for output o.
Tensor ideal(const Case& c, std::size_t o, const ExpectedOutput& e) {
  Tensor y(c.outputs[o].dtype, c.outputs[o].dims);
  if (e.rule == Rule::bits) std::copy(e.bytes.begin(), e.bytes.end(), y.bytes().begin());
  else
    for (std::size_t i = 0; i < e.value.size(); ++i)
      y.set(e.index.empty() ? static_cast<std::int64_t>(i) : e.index[i], static_cast<double>(static_cast<float>(e.value[i])));
  return y;
}

TEST(References, AcceptTheirOwnValuesAndNoOtherOnes) {
  const CaseTable table;
  std::size_t n = 0;
  for (const Case* c : table.of(Profile::quick)) {
    if (c->script || c->graph || n++ % 16 != 0 || input_bytes(*c) > 1 << 20) continue;  // a sample: each family is in it
    std::vector<std::byte> arena(input_bytes(*c));
    const CaseData data = map_data(*c, arena);
    fill_data(*c, data);
    Expected expected;
    expected.outputs.resize(c->outputs.size());
    c->reference({*c, data.inputs, data.states}, expected);
    for (std::size_t o = 0; o < c->outputs.size(); ++o) {
      const ExpectedOutput& e = expected.outputs[o];
      if (c->outputs[o].absent() || element_count(c->outputs[o].dims) == 0 || format_of(c->outputs[o].dtype) != nullptr) continue;
      const Tensor y = ideal(*c, o, e);
      EXPECT_EQ(judge(e, y, Numerics::exact).status, Status::pass) << c->name << ": " << judge(e, y, Numerics::exact).text;
      if (e.rule == Rule::bits) {
        y.bytes()[y.bytes().size() / 2] ^= std::byte{1};
        EXPECT_EQ(judge(e, y, Numerics::exact).status, Status::fail) << c->name;
        continue;
      }
      const std::size_t at = e.value.size() / 2;
      const double r = e.value[at], bound = e.rule == Rule::value ? 0 : e.bound[at];
      const double step = 4 * (bound + store_bound(y.dtype(), r)) + (y.dtype() == QUERN_I32 ? 1 : 0);
      const double moved = std::isfinite(y.rounded(r)) ? (r > 0 ? r - step : r + step) : 1.0;  // not beyond the largest number
      y.set(e.index.empty() ? static_cast<std::int64_t>(at) : e.index[at], moved);
      EXPECT_EQ(judge(e, y, Numerics::exact).status, Status::fail) << c->name;
    }
  }
  EXPECT_GT(n, 0u);
}

/// One row of weights of one block whose element 0 is scale code + minimum = 0, every number of it exact in f32.
struct Cancelling {
  float scale, minimum;
  int code;
  Tensor weights;
};

Cancelling cancelling_weight(quern_dtype dtype, int code) {
  const BlockFormat& format = *BlockFormat::find(dtype);
  const bool super = format.descriptor().formula == QUERN_FORMULA_SUPER_OFFSET;
  Cancelling w{1.25f, 0, code, Tensor(dtype, {1, format.descriptor().block_elements})};
  const auto set = [&](std::uint32_t role, double x) {
    const bool is_f16 = role == QUERN_ROLE_SUPER_SCALE || role == QUERN_ROLE_SUPER_MIN;
    format.set_entry(w.weights.bytes().data(), role, 0, is_f16 ? f16_bits(x) : static_cast<std::uint64_t>(x));
  };
  set(QUERN_ROLE_CODE, code);
  set(QUERN_ROLE_SUPER_SCALE, 1.25);
  if (super) {
    set(QUERN_ROLE_SCALE, 3);
    set(QUERN_ROLE_MIN, code);
    set(QUERN_ROLE_SUPER_MIN, 3.75);
    w.scale = 3.75f;
  } else {
    set(QUERN_ROLE_SUPER_MIN, -1.25 * code);
  }
  w.minimum = -w.scale * static_cast<float>(code);
  return w;
}

/// y of a row of a whose only element beside zeros is a[0], as integer kernels compute it: codes and minimum apart, in f32.
float two_parts(float a, const Cancelling& w) {
  const float step = a / 127, codes = (step * w.scale) * static_cast<float>(127 * w.code);
  return codes + (step * 127) * w.minimum;
}

TEST(References, AllowThatThePartsOfAWeightWithAMinimumDoNotCancelToTheBitInFastNumericsOnly) {
  for (const quern_dtype dtype : {QUERN_Q4_1, QUERN_Q5_1, QUERN_Q4_K, QUERN_Q5_K}) {
    int left = 0;
    for (const float a : {0.3f, 0.7f, 1.1f, -3.3f, 1000.1f})
      for (const int code : {5, 7, 9, 11, 13}) {
        const Cancelling w = cancelling_weight(dtype, code);
        ASSERT_EQ(w.weights.at(0), 0.0) << dtype_name(dtype);
        const std::int64_t k = w.weights.dims()[1];
        Case c;
        c.op = QUERN_OP_MATMUL;
        c.fast_conversions = weight_conversions(dtype);
        c.inputs = {input(QUERN_F32, {1, k}), constant(dtype, {1, k})};
        c.outputs = {output(QUERN_F32, {1, 1})};
        std::vector<Tensor> inputs{Tensor(QUERN_F32, {1, k}), w.weights};
        const std::vector<Tensor> states(1);
        inputs[0].set(0, static_cast<double>(a));
        Expected expected;
        expected.outputs.resize(1);
        matmul_reference({c, inputs, states}, expected);
        Tensor y(QUERN_F32, {1, 1});
        EXPECT_EQ(judge(expected.outputs[0], y, Numerics::exact).status, Status::pass);
        y.set(0, static_cast<double>(two_parts(a, w)));
        left += y.at(0) != 0.0;
        EXPECT_EQ(judge(expected.outputs[0], y, Numerics::fast).status, Status::pass) << dtype_name(dtype) << " " << y.at(0);
        if (y.at(0) != 0.0) {
          EXPECT_EQ(judge(expected.outputs[0], y, Numerics::exact).status, Status::fail) << dtype_name(dtype) << " " << y.at(0);
        }
        // A scale that is an f16 step off leaves far more than that: it fails in fast numerics too.
        y.set(0, static_cast<double>(a * w.minimum * 0x1p-11f));
        EXPECT_EQ(judge(expected.outputs[0], y, Numerics::fast).status, Status::fail) << dtype_name(dtype) << " " << y.at(0);
      }
    EXPECT_GT(left, 0) << dtype_name(dtype) << ": no pair of parts leaves anything, so that nothing was shown";
  }
}

/// 40 rows in each of which one activation is 1,000 times the others, times 96 rows of weights; both rounded to bf16, or only made larger by `gain`.
struct OneDecides {
  static constexpr std::int64_t m = 40, n = 96, k = 256;
  Expected expected;
  Tensor rounded{QUERN_F32, {m, n}}, gained{QUERN_F32, {m, n}};

  explicit OneDecides(std::uint64_t seed, double gain = 1.02) {
    const CounterRandom random = CounterRandom::of("one decides").stream(seed);
    Case c;
    c.op = QUERN_OP_MATMUL;
    c.fast_conversions = weight_conversions(QUERN_F32);
    c.inputs = {input(QUERN_F32, {m, k}), constant(QUERN_F32, {n, k})};
    c.outputs = {output(QUERN_F32, {m, n})};
    std::vector<Tensor> inputs{Tensor(QUERN_F32, {m, k}), Tensor(QUERN_F32, {n, k})},
        halves{Tensor(QUERN_BF16, {m, k}), Tensor(QUERN_BF16, {n, k})};
    for (std::size_t i = 0; i < 2; ++i)
      for (std::int64_t at = 0; at < inputs[i].count(); ++at) {
        const double value = random.stream(i + 1).gaussian(static_cast<std::uint64_t>(at)) * (i == 0 && at % k == 7 ? 1000 : 1);
        inputs[i].set(at, value);
        halves[i].set(at, inputs[i].at(at));
      }
    const std::vector<Tensor> states(2);
    expected.outputs.resize(1);
    matmul_reference({c, inputs, states}, expected);
    for (std::int64_t at = 0; at < m * n; ++at) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += halves[0].at(at / n * k + l) * halves[1].at(at % n * k + l);
      rounded.set(at, sum);
      gained.set(at, expected.outputs[0].value[static_cast<std::size_t>(at)] * gain);
    }
  }
};

TEST(References, ASlopeAllowsForRoundingsOfTheFewElementsThatDecide) {
  int even_fail = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    OneDecides given(seed);
    ExpectedOutput& y = given.expected.outputs[0];
    EXPECT_EQ(judge(y, given.rounded, Numerics::fast).status, Status::pass) << judge(y, given.rounded, Numerics::fast).text;
    EXPECT_EQ(judge(y, given.gained, Numerics::fast).status, Status::fail);
    y.sharing = sharing_of_conversions(OneDecides::n, even_shares(OneDecides::k));
    y.gain_variance = gain_variance_of_weights(OneDecides::n, even_shares(OneDecides::k), QUERN_F32, QUERN_CONVERT_BF16);
    even_fail += judge(y, given.rounded, Numerics::fast).status == Status::fail;
  }
  EXPECT_GT(even_fail, 0) << "as many as rows whose elements are alike would allow";
}

TEST(References, SharesAreThoseOfTheRows) {
  RowShares alike(4), one(4), steps(4);
  for (int row = 0; row < 10; ++row) {
    alike.add({0, 1, 2, 3}, {1, -1, 1, 1}, {1, 1, 1, 1});
    one.add({0, 1, 2, 3}, {1e-6, 1, 1e-6, 1e-6}, {1e-6, 1, 1e-6, 1e-6});
    steps.add({0, 1}, {1, 1}, {0, 0});  // nothing is converted
  }
  EXPECT_EQ(alike.shares().activations, 0.75);  // even_shares, of gaussians
  EXPECT_EQ(alike.shares().weights, 0.25);
  EXPECT_NEAR(one.shares().activations, 1, 1e-9);
  EXPECT_NEAR(one.shares().weights, 1, 1e-9);
  EXPECT_EQ(steps.shares().weights, 0.25);
}

TEST(References, PhiloxGivesTheAnswersThatItsAuthorsPublished) {  // kat_vectors of Random123
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t all = 0xffffffff;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({all, all, all, all}, {all, all}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Central difference of f at x; the third derivatives are below 100 here.
double slope_at(Activation kind, double x, double alpha) {
  constexpr double h = 0x1p-15;
  return (activation_value(kind, x + h, alpha).value - activation_value(kind, x - h, alpha).value) / (2 * h);
}

TEST(References, SlopesOfActivationsAreTheirDerivatives) {
  for (const Activation kind : {Activation::silu, Activation::gelu_erf, Activation::gelu_tanh, Activation::gelu_quick, Activation::relu,
                                Activation::relu_sqr, Activation::sigmoid, Activation::tanh})
    for (double x = -20.03125; x < 20; x += 0.0625)
      for (const double alpha : {1.0, 1.703125}) {
        if (alpha != 1.0 && kind != Activation::silu) continue;
        EXPECT_NEAR(activation_slope(kind, x, alpha).value, slope_at(kind, x, alpha), 1e-7) << static_cast<int>(kind) << " at " << x;
      }
}

}  // namespace
}  // namespace quern::conformance
