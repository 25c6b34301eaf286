// The references of backward ops are the derivatives of the forward ones: central differences of sum(dy * y) in f64.
#include "case_table/case_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::conformance {
namespace {

using Tensors = std::vector<Tensor>;

enum Argument { of_dy = -1, of_nothing = -2, of_y = -3 };  // else the forward input of that number

/// A forward op with its backward op on small tensors.
struct Pair {
  const char* name;
  std::uint32_t forward, backward;
  std::vector<Dims> inputs;  // of the forward op
  Dims y;
  std::vector<Attribute> attributes, backward_attributes;
  std::vector<int> arguments;          // of the backward op
  std::vector<std::size_t> gradients;  // which forward input each output of the backward op is for
};

const Pair pairs[] = {
    {"rms_norm",
     QUERN_OP_RMS_NORM,
     QUERN_OP_RMS_NORM_BACKWARD,
     {{3, 6}, {6}},
     {3, 6},
     {{QUERN_KEY_EPSILON, 0.125}, {QUERN_KEY_WEIGHT_OFFSET, 1}},
     {{QUERN_KEY_EPSILON, 0.125}, {QUERN_KEY_WEIGHT_OFFSET, 1}},
     {0, 1, of_dy},
     {0, 1}},
    {"layer_norm",
     QUERN_OP_LAYER_NORM,
     QUERN_OP_LAYER_NORM_BACKWARD,
     {{3, 6}, {6}, {6}},
     {3, 6},
     {{QUERN_KEY_EPSILON, 0.125}},
     {{QUERN_KEY_EPSILON, 0.125}},
     {0, 1, of_dy},
     {0, 1, 2}},
    {"l2_norm",
     QUERN_OP_L2_NORM,
     QUERN_OP_L2_NORM_BACKWARD,
     {{3, 6}},
     {3, 6},
     {{QUERN_KEY_EPSILON, 1e-6}},
     {{QUERN_KEY_EPSILON, 1e-6}},
     {0, of_dy},
     {0}},
    {"l2_norm of short rows",
     QUERN_OP_L2_NORM,
     QUERN_OP_L2_NORM_BACKWARD,
     {{3, 6}},
     {3, 6},
     {{QUERN_KEY_EPSILON, 64}},
     {{QUERN_KEY_EPSILON, 64}},
     {0, of_dy},
     {0}},
    {"softmax",
     QUERN_OP_SOFTMAX,
     QUERN_OP_SOFTMAX_BACKWARD,
     {{3, 6}, {}, {}},
     {3, 6},
     {{QUERN_KEY_SCALE, 0.5}},
     {{QUERN_KEY_SCALE, 0.5}},
     {of_y, of_dy},
     {0}},
    {"glu", QUERN_OP_GLU, QUERN_OP_GLU_BACKWARD, {{3, 6}, {3, 6}}, {3, 6}, {}, {}, {0, 1, of_dy}, {0, 1}},
    {"glu with a limit",
     QUERN_OP_GLU,
     QUERN_OP_GLU_BACKWARD,
     {{3, 6}, {3, 6}},
     {3, 6},
     {{QUERN_KEY_LIMIT, 0.7001953125}, {QUERN_KEY_ALPHA, 1.75}},
     {{QUERN_KEY_LIMIT, 0.7001953125}, {QUERN_KEY_ALPHA, 1.75}},
     {0, 1, of_dy},
     {0, 1}},
    {"glu of halves",
     QUERN_OP_GLU,
     QUERN_OP_GLU_BACKWARD,
     {{3, 12}, {}},
     {3, 6},
     {{QUERN_KEY_KIND, 1}, {QUERN_KEY_SWAPPED, 1}},
     {{QUERN_KEY_KIND, 1}, {QUERN_KEY_SWAPPED, 1}},
     {0, of_nothing, of_dy},
     {0}},
};

Reference reference_of(const CaseTable& table, std::uint32_t op) {
  const auto at = std::ranges::find_if(table.all(), [op](const Case& c) { return c.op == op && c.reference != nullptr; });
  return at == table.all().end() ? nullptr : at->reference;
}

/// What a reference gives for outputs of these dims.
std::vector<std::vector<double>> evaluate(Reference reference, std::uint32_t op, const std::vector<Attribute>& attributes,
                                          const Tensors& inputs, const std::vector<Dims>& outputs) {
  Case c;
  c.op = op;
  c.attributes = attributes;
  for (const Tensor& t : inputs) {
    c.inputs.emplace_back();
    c.inputs.back().dtype = t.dtype();
    c.inputs.back().dims = t.dims();
  }
  for (const Dims& dims : outputs) {
    c.outputs.emplace_back();
    c.outputs.back().dtype = QUERN_F32;
    c.outputs.back().dims = dims;
  }
  Expected expected;
  expected.outputs.resize(outputs.size());
  const Tensors states(outputs.size());
  reference({c, inputs, states}, expected);
  std::vector<std::vector<double>> values;
  for (const ExpectedOutput& e : expected.outputs) values.push_back(e.value);
  return values;
}

/// Multiples of 2^-10 that are not near 0: adding and taking off a step of 2^-8 is exact in f32.
Tensor grid(const Dims& dims, std::uint64_t key) {
  Tensor t(QUERN_F32, dims);
  const CounterRandom random(key);
  for (std::int64_t i = 0; i < t.count(); ++i) {
    const double v = std::round(1024 * random.gaussian(static_cast<std::uint64_t>(i))) / 1024;
    t.set(i, std::fabs(v) < 0.125 ? 0.25 : v);
  }
  return t;
}

TEST(References, BackwardOpsAreTheDerivativesOfTheForwardOnes) {
  const CaseTable table;
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.name);
    const Reference forward = reference_of(table, pair.forward), backward = reference_of(table, pair.backward);
    ASSERT_NE(forward, nullptr);
    ASSERT_NE(backward, nullptr);
    Tensors inputs;
    for (const Dims& dims : pair.inputs) inputs.push_back(dims.empty() ? Tensor() : grid(dims, 11 + inputs.size()));
    const Tensor dy = grid(pair.y, 5), y(QUERN_F32, pair.y);
    const auto loss = [&] {
      const std::vector<double> values = evaluate(forward, pair.forward, pair.attributes, inputs, {pair.y})[0];
      double sum = 0;
      for (std::int64_t i = 0; i < dy.count(); ++i) sum += dy.at(i) * values[static_cast<std::size_t>(i)];
      return sum;
    };
    const std::vector<double> of_inputs = evaluate(forward, pair.forward, pair.attributes, inputs, {pair.y})[0];
    for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, of_inputs[static_cast<std::size_t>(i)]);
    Tensors arguments;
    for (const int a : pair.arguments)
      arguments.push_back(a == of_dy ? dy : a == of_nothing ? Tensor() : a == of_y ? y : inputs[static_cast<std::size_t>(a)]);
    std::vector<Dims> outputs;
    for (const std::size_t g : pair.gradients) outputs.push_back(pair.inputs[g]);
    const auto gradients = evaluate(backward, pair.backward, pair.backward_attributes, arguments, outputs);
    for (std::size_t g = 0; g < pair.gradients.size(); ++g) {
      const Tensor& x = inputs[pair.gradients[g]];
      for (std::int64_t i = 0; i < x.count(); ++i) {
        constexpr double h = 0x1p-8;
        const double at = x.at(i);
        x.set(i, at + h);
        const double above = loss();
        x.set(i, at - h);
        const double below = loss();
        x.set(i, at);
        // h^2 / 6 = 2.5e-6 times a third derivative below 200 here; values of 1e-2 and more are told apart.
        EXPECT_NEAR(gradients[g][static_cast<std::size_t>(i)], (above - below) / (2 * h), 5e-4) << "gradient " << g << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace quern::conformance
