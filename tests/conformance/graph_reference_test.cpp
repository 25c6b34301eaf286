// The references of whole graphs: deviations against inputs that are really moved, gradients against finite differences.
#include "graphs/judge_graph.hpp"
#include "graphs/reference/node_reference.hpp"
#include "graphs/reference/training_step.hpp"
#include "ops/family.hpp"
#include "report/kernel_coverage.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::conformance {
namespace {

Tensor filled_tensor(quern_dtype dtype, Dims dims, const char* name) {
  Tensor t(dtype, std::move(dims));
  fill(t, DataKind::gaussian, CounterRandom::of(name));
  return t;
}

Operand exact(const Tensor& t) {
  Operand x;
  x.dims = t.dims();
  x.tensor = &t;
  return x;
}

Operand uncertain(const Dims& dims, const char* name, double deviation) {
  const Tensor t = filled_tensor(QUERN_F32, dims, name);
  Operand x;
  x.dims = dims;
  x.value = t.values();
  x.deviation.assign(x.value.size(), deviation);
  return x;
}

/// Moves the uncertain operands by their deviations, many times, and compares what the output spreads with what it says.
void expect_deviation(const GraphNode& node, std::vector<Operand> operands) {
  NodeCall call{node, Numerics::exact, {}, {nullptr}, {QUERN_F32}, false, "test"};
  for (Operand& x : operands) call.inputs.push_back(&x);
  const Result said = node_reference(call)[0];
  std::vector<double> squares(said.value.size(), 0.0);
  constexpr int runs = 200;
  for (int run = 0; run < runs; ++run) {
    std::vector<Operand> moved = operands;
    for (std::size_t o = 0; o < moved.size(); ++o)
      for (std::size_t i = 0; i < moved[o].value.size(); ++i)
        moved[o].value[i] += moved[o].deviation[i] * CounterRandom(7).stream(static_cast<std::uint64_t>(run)).stream(o).gaussian(i);
    NodeCall again = call;
    again.inputs.clear();
    for (Operand& x : moved) again.inputs.push_back(&x);
    const Result y = node_reference(again)[0];
    for (std::size_t i = 0; i < squares.size(); ++i) squares[i] += (y.value[i] - said.value[i]) * (y.value[i] - said.value[i]) / runs;
  }
  for (std::size_t i = 0; i < squares.size(); ++i)  // a deviation from 200 runs is known to 5 %: within six of those
    EXPECT_NEAR(std::sqrt(squares[i]) / said.deviation[i], 1.0, 0.35) << "element " << i;
}

/// A value of a whole graph below 2^-126 may be 0 where the device declares `ftz`, and nowhere else; what is larger may not.
TEST(NodeReference, AFlushedValueIsJudgedByWhatTheDeviceDeclares) {
  Result expected;
  for (const double r : {-1.04918189e-39, 0.5}) expected.add(r, 1e-45, 0.0);
  Tensor found(QUERN_F32, {2}), lost(QUERN_F32, {2});
  found.set(0, -0.0), found.set(1, 0.5);
  EXPECT_EQ(judge_result(expected, found, Numerics::exact).status, Status::fail);
  EXPECT_EQ(judge_result(expected, found, Numerics::exact, true).status, Status::pass);
  EXPECT_EQ(judge_result(expected, lost, Numerics::exact, true).status, Status::fail);
}

TEST(NodeReference, DeviationOfAProductIsWhatItsInputsBring) {
  const Tensor b = filled_tensor(QUERN_Q8_0, {5, 64}, "b");
  expect_deviation({QUERN_OP_MATMUL, {}, {0}, {{QUERN_KEY_ALPHA, 0.5}}, 0, no_value}, {uncertain({3, 64}, "a", 1e-4), exact(b)});
}

TEST(NodeReference, DeviationOfANormIsWhatItsInputsBring) {
  const Tensor w = filled_tensor(QUERN_F32, {16}, "w");
  expect_deviation({QUERN_OP_RMS_NORM, {}, {0}, {{QUERN_KEY_EPSILON, 0x1p-16}}, 0, no_value}, {uncertain({2, 16}, "x", 1e-4), exact(w)});
}

TEST(NodeReference, DeviationOfAGatedProductIsWhatItsInputsBring) {
  expect_deviation({QUERN_OP_GLU, {}, {0}, {}, 0, no_value}, {uncertain({2, 16}, "gate", 1e-5), uncertain({2, 16}, "up", 1e-5)});
}

TEST(NodeReference, EachBiasOfATokenMayRoundTheSum) {
  constexpr std::int64_t rows = 500;
  const Tensor x = filled_tensor(QUERN_F32, {rows, 4}, "logits"), bias = filled_tensor(QUERN_F32, {rows, 3}, "bias"),
               token(QUERN_I32, {rows, 3});
  for (std::int64_t i = 0; i < token.count(); ++i) token.set(i, i % 3 == 1 ? 0 : 2);  // token 2 twice, token 0 once
  const Operand inputs[] = {exact(x), exact(token), exact(bias)};
  const GraphNode node{QUERN_OP_LOGIT_BIAS, {}, {0}, {}, 0, no_value};
  const Result said =
      node_reference({node, Numerics::exact, {&inputs[0], &inputs[1], &inputs[2]}, {nullptr}, {QUERN_F32}, false, "test"})[0];
  int rounded_twice = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row * 4 + 2);
    const float sum = static_cast<float>(x.at(row * 4 + 2)) + static_cast<float>(bias.at(row * 3));
    const double found = sum + static_cast<float>(bias.at(row * 3 + 2)), off = std::fabs(found - said.value[at]);
    EXPECT_LE(off, said.bound[at] + half_ulp_f32(said.value[at])) << "row " << row;
    rounded_twice += off > half_ulp_f32(said.value[at]);
    EXPECT_EQ(said.bound[at - 2], 0.0) << "one bias is rounded once";
    EXPECT_EQ(said.bound[at - 1], 0.0) << "no bias";
  }
  EXPECT_GT(rounded_twice, 20) << "the sums of this test do not need the bound";
}

TEST(NodeReference, DeviationOfARotationIsWhatItsInputsBring) {
  const Tensor position(QUERN_I32, {3}), table = filled_tensor(QUERN_F32, {4, 4, 2}, "table");
  for (std::int64_t i = 0; i < 3; ++i) position.set(i, static_cast<double>(i + 1));
  expect_deviation({QUERN_OP_ROPE, {}, {0}, {}, 0, no_value}, {uncertain({3, 2, 8}, "x", 1e-4), exact(position), exact(table)});
}

TEST(NodeReference, DeviationOfAttentionIsWhatItsQueryBrings) {
  const Tensor keys = filled_tensor(QUERN_F32, {2, 1, 4, 8}, "k"), values = filled_tensor(QUERN_F32, {2, 1, 4, 8}, "v");
  const Tensor table(QUERN_I32, {1, 2}), slot(QUERN_I32, {2}), position(QUERN_I32, {2});
  table.set(0, 1), position.set(0, 3), position.set(1, 6);
  expect_deviation({QUERN_OP_ATTENTION, {}, {0}, {{QUERN_KEY_SCALE, 0.5}}, 0, no_value},
                   {uncertain({2, 2, 8}, "q", 1e-4), exact(keys), exact(values), exact(table), exact(slot), exact(position)});
}

TEST(NodeReference, DeviationOfCappedAttentionWithSinksIsWhatItsQueryBrings) {
  const Tensor keys = filled_tensor(QUERN_F32, {2, 1, 4, 8}, "k"), values = filled_tensor(QUERN_F32, {2, 1, 4, 8}, "v"),
               sinks = filled_tensor(QUERN_F32, {2}, "s");
  const Tensor table(QUERN_I32, {1, 2}), slot(QUERN_I32, {2}), position(QUERN_I32, {2});
  table.set(0, 1), position.set(0, 3), position.set(1, 6);
  const Operand q = uncertain({2, 2, 8}, "q", 1e-4);
  const Operand inputs[] = {q, exact(keys), exact(values), exact(table), exact(slot), exact(position), exact(sinks)};
  const auto reference = [&](const Operand& query, std::vector<Attribute> attributes, bool with_sinks) {
    const GraphNode node{QUERN_OP_ATTENTION, {}, {0}, std::move(attributes), 0, no_value};
    std::vector<const Operand*> given = {&query, &inputs[1], &inputs[2], &inputs[3], &inputs[4], &inputs[5]};
    if (with_sinks) given.insert(given.end(), {nullptr, nullptr, &inputs[6]});
    return node_reference({node, Numerics::exact, given, {nullptr}, {QUERN_F32}, false, "test"})[0];
  };
  const std::vector<Attribute> capped = {{QUERN_KEY_SCALE, 0.5}, {QUERN_KEY_SOFTCAP, 1.5}};
  const Result said = reference(q, capped, true), without_sinks = reference(q, capped, false),
               uncapped = reference(q, {{QUERN_KEY_SCALE, 0.5}}, true);
  std::vector<double> squares(said.value.size(), 0.0);
  constexpr int runs = 200;
  for (int run = 0; run < runs; ++run) {
    Operand moved = q;
    for (std::size_t i = 0; i < moved.value.size(); ++i)
      moved.value[i] += 1e-4 * CounterRandom(7).stream(static_cast<std::uint64_t>(run)).gaussian(i);
    const Result y = reference(moved, capped, true);
    for (std::size_t i = 0; i < squares.size(); ++i) squares[i] += (y.value[i] - said.value[i]) * (y.value[i] - said.value[i]) / runs;
  }
  for (std::size_t i = 0; i < squares.size(); ++i) {
    EXPECT_NEAR(std::sqrt(squares[i]) / said.deviation[i], 1.0, 0.35) << "element " << i;
    EXPECT_NE(said.value[i], without_sinks.value[i]);
    EXPECT_NE(said.value[i], uncapped.value[i]);
  }
}

TEST(NodeReference, DeviationOfALayerNormIsWhatItsInputsBring) {
  const Tensor w = filled_tensor(QUERN_F32, {64}, "w"),
               b = filled_tensor(QUERN_F32, {64}, "b");  // of few elements the shared parts are correlated
  expect_deviation({QUERN_OP_LAYER_NORM, {}, {0}, {{QUERN_KEY_EPSILON, 0x1p-16}}, 0, no_value},
                   {uncertain({2, 64}, "x", 1e-4), exact(w), exact(b)});
}

TEST(NodeReference, DeviationOfChosenExpertsIsWhatTheirInputsBring) {
  const Tensor b = filled_tensor(QUERN_F32, {3, 5, 64}, "b"), id(QUERN_I32, {2, 2});
  id.set(0, 2), id.set(1, 0), id.set(2, 1), id.set(3, 2);
  expect_deviation({QUERN_OP_MATMUL_ID, {}, {0}, {}, 0, no_value}, {uncertain({2, 1, 64}, "a", 1e-4), exact(b), exact(id)});
  expect_deviation({QUERN_OP_MOE_COMBINE, {}, {0}, {}, 0, no_value}, {uncertain({2, 2, 8}, "x", 1e-4), uncertain({2, 2}, "weight", 1e-4)});
}

TEST(NodeReference, DeviationOfAnAdapterIsWhatItsInputsBring) {
  const Tensor pool = filled_tensor(QUERN_F32, {64}, "pool"), table(QUERN_I32, {1, 4}), slot(QUERN_I32, {2});
  table.set(0, 0), table.set(1, 32), table.set(2, 2), table.set(3, 1065353216);  // A [2, 16], B [8, 2], a scale of 1
  slot.set(1, -1);
  expect_deviation({QUERN_OP_LORA_MATMUL, {}, {0}, {{QUERN_KEY_ALPHA, 0.5}}, 0, no_value},
                   {uncertain({2, 16}, "x", 1e-4), exact(pool), exact(table), exact(slot), uncertain({2, 8}, "base", 1e-4)});
}

TEST(NodeReference, ARouterIsJudgedByTheExpertsThatItChose) {
  const Tensor logits(QUERN_F32, {1, 3}), right(QUERN_I32, {1, 2}), wrong(QUERN_I32, {1, 2});
  logits.set(0, 1), logits.set(1, 3), logits.set(2, 2);
  right.set(0, 1), right.set(1, 2), wrong.set(0, 1), wrong.set(1, 0);
  const Operand x = exact(logits);
  const GraphNode node{QUERN_OP_MOE_ROUTER, {}, {0, 1}, {{QUERN_KEY_USED, 2}}, 0, no_value};
  const auto reference = [&](const Tensor& shown) {
    return node_reference({node, Numerics::exact, {&x}, {nullptr, nullptr}, {QUERN_I32, QUERN_F32}, false, "test", {&shown, nullptr}});
  };
  const std::vector<Result> said = reference(right);
  EXPECT_EQ(said[0].check(right), "");
  EXPECT_NE(said[0].check(wrong), "");
  EXPECT_NEAR(said[1].value[0], 1 / (1 + std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(reference(wrong)[1].value[1], 1 / (1 + std::exp(2.0)), 1e-12);
}

TEST(NodeReference, AnUnknownOpIsAFaultOfTheSuite) {
  const GraphNode node{QUERN_OP_CUMSUM, {}, {0}, {}, 0, no_value};
  EXPECT_THROW(node_reference({node, Numerics::exact, {}, {nullptr}, {QUERN_F32}, false, "test"}), std::logic_error);
}

TEST(KernelCoverage, FindsKernelsInAFileByTheWordsOfThoseThatWereReached) {
  using namespace std::string_literals;
  const std::string file = "x\0matmul.q4_0.avx2\0matmul.q4_0.avx512\0libc.so\0matmul\0relu.avx2 and more\0fused_thing.avx2\0other.avx2\0"s;
  const std::set<std::string> expected = {"matmul.q4_0.avx2", "fused_thing.avx2"};
  EXPECT_EQ(kernel_words(file, {{"fused_thing.avx2", 1}}), expected);  // avx512 was not reached, other is neither op nor reached
}

Matrix random_matrix(std::int64_t n, std::int64_t k, const char* name) {
  Matrix m(n, k);
  const CounterRandom random = CounterRandom::of(name);
  for (std::size_t i = 0; i < m.at.size(); ++i) m.at[i] = random.gaussian(i) / std::sqrt(static_cast<double>(k));
  return m;
}

TrainingModel small_model() {
  TrainingModel m;
  TrainingShape& s = m.shape;
  s.tokens = 5, s.hidden = 8, s.heads = 2, s.kv_heads = 1, s.head = 4, s.ffn = 12, s.vocab = 9, s.rank = 2;
  for (TrainingLayer& l : m.layers) {
    const char* name = &l == m.layers ? "first" : "second";
    l.attn_norm.assign(8, 1.25), l.ffn_norm.assign(8, 0.75);
    l.query = random_matrix(8, 8, name), l.key = random_matrix(4, 8, name), l.value = random_matrix(4, 8, "v"),
    l.output = random_matrix(8, 8, "o");
    l.gate = random_matrix(12, 8, "g"), l.up = random_matrix(12, 8, "u"), l.down = random_matrix(8, 12, name);
  }
  m.final_norm.assign(8, 1.0);
  m.head = random_matrix(9, 8, "head");
  m.x = random_matrix(5, 8, "x");
  for (int i = 0; i < 5 * 2; ++i) m.angles.push_back(std::cos(i * 0.7)), m.angles.push_back(std::sin(i * 0.7));
  m.label = {3, 1, -100, 8, 0};
  return m;
}

TEST(TrainingStep, ItsGradientsAreTheSlopesOfItsLoss) {
  const TrainingModel model = small_model();
  std::int64_t size = 0;
  adapter_places(model.shape, size);
  TrainingState state;
  const CounterRandom random = CounterRandom::of("pool");
  for (std::int64_t i = 0; i < size; ++i) state.pool.push_back(0.3 * random.gaussian(static_cast<std::uint64_t>(i)));
  state.m.assign(state.pool.size(), 0.0), state.v.assign(state.pool.size(), 0.0);
  const TrainingOutputs at = train(model, state, 1, nullptr);
  for (std::size_t i = 0; i < state.pool.size(); ++i) {
    constexpr double h = 1e-5;
    TrainingState moved = state;
    moved.pool[i] += h;
    const double above = train(model, moved, 1, nullptr).mean[0];
    moved.pool[i] -= 2 * h;
    const double slope = (above - train(model, moved, 1, nullptr).mean[0]) / (2 * h);
    EXPECT_NEAR(at.gradient[i], slope, 1e-7) << "element " << i;  // h^2 times a third derivative below 1000
  }
}

TEST(TrainingStep, NoiseMovesWhatItIsSaidToMoveAndNoMore) {
  const TrainingModel model = small_model();
  std::int64_t size = 0;
  adapter_places(model.shape, size);
  TrainingState state;
  state.pool.assign(static_cast<std::size_t>(size), 0.1), state.m.assign(state.pool.size(), 0.0), state.v.assign(state.pool.size(), 0.0);
  RoundingNoise noise(CounterRandom(1));
  const double exact = train(model, state, 1, nullptr).mean[0], moved = train(model, state, 1, &noise).mean[0];
  EXPECT_NE(exact, moved);
  EXPECT_NEAR(exact, moved, 1e-4 * exact);
}

}  // namespace
}  // namespace quern::conformance
