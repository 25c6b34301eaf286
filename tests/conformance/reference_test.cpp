// The references: every quick case's reference accepts its own values, and rejects them with one element moved by four bounds.
#include "case_table/case_table.hpp"
#include "judge/judge.hpp"
#include "ops/activation_reference.hpp"
#include "ops/random_uniform_reference.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

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
