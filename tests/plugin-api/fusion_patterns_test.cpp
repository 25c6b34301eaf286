// The patterns that fused kernels stand for (quern/sdk/fusion/patterns.hpp, adapters.hpp, orders.hpp), on graphs of a few nodes; each condition that a pattern
// asks for is broken in turn.
#include "quern/sdk/fusion/patterns.hpp"

#include "quern/sdk/fusion/adapters.hpp"
#include "quern/sdk/fusion/orders.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>

namespace {

using quern::sdk::Tensor;
constexpr std::uint32_t none = QUERN_NONE;

/// Numbers by key; what a node does not say is as the ops have it.
struct Numbers {
  std::map<std::uint32_t, std::int64_t> integers;
  std::map<std::uint32_t, double> reals;
  std::int64_t integer(std::uint32_t key) const { return integers.count(key) != 0 ? integers.at(key) : 0; }
  double real(std::uint32_t key) const {
    if (reals.count(key) != 0) return reals.at(key);
    return key == QUERN_KEY_ALPHA ? 1.0 : key == QUERN_KEY_LIMIT ? std::numeric_limits<double>::infinity() : 0.0;
  }
};

/// As much of a resolved graph as the recognisers ask of it.
struct SmallGraph {
  struct Value {
    Tensor tensor;
    std::uint32_t root;
    std::uint64_t offset, bytes;
  };
  struct Node {
    std::uint32_t op = QUERN_OP_COPY;
    std::vector<std::uint32_t> inputs, outputs;
    std::shared_ptr<Numbers> attributes = std::make_shared<Numbers>();
    std::uint32_t predicate = none;
    bool invariant = false;
  };
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<std::uint32_t> kept;

  bool internal(std::uint32_t root) const noexcept { return std::find(kept.begin(), kept.end(), root) == kept.end(); }

  std::uint32_t value(std::vector<std::int64_t> dims, quern_dtype dtype = QUERN_F32) {
    Tensor t;
    t.dtype = dtype;
    t.rank = static_cast<std::uint32_t>(dims.size());
    std::int64_t bytes = dtype == QUERN_F32 || dtype == QUERN_I32 ? 4 : 2;
    for (std::uint32_t d = t.rank; d-- > 0; bytes *= dims[d]) t.dims[d] = dims[d], t.strides[d] = bytes;
    values.push_back({t, static_cast<std::uint32_t>(values.size()), 0, static_cast<std::uint64_t>(bytes)});
    return static_cast<std::uint32_t>(values.size() - 1);
  }
  /// Columns `first` to `first + count` of a matrix.
  std::uint32_t columns(std::uint32_t of, std::int64_t first, std::int64_t count) {
    Value view = values[of];
    view.tensor.dims[1] = count;
    view.offset = static_cast<std::uint64_t>(first) * 4;
    view.bytes = static_cast<std::uint64_t>(view.tensor.dims[0] * count) * 4;
    values.push_back(view);
    return static_cast<std::uint32_t>(values.size() - 1);
  }
  std::uint32_t node(std::uint32_t op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs) {
    Node made;
    made.op = op;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    nodes.push_back(made);
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
};
using Patterns = quern::sdk::fusion::Patterns<SmallGraph>;
using quern::sdk::fusion::Refusal;

/// y = activation(x gate) * (x up).
struct GatedLayer : SmallGraph {
  std::uint32_t x = value({3, 64}), gate_weight = value({32, 64}), up_weight = value({32, 64}), gated = value({3, 32}),
                upped = value({3, 32}), y = value({3, 32});
  std::uint32_t gate = node(QUERN_OP_MATMUL, {x, gate_weight}, {gated}), up = node(QUERN_OP_MATMUL, {x, up_weight}, {upped}),
                glu = node(QUERN_OP_GLU, {gated, upped}, {y});
  GatedLayer() { kept = {x, gate_weight, up_weight, y}; }
  const char* refusal() const {
    Refusal why = nullptr;
    const auto found = Patterns(*this).glu_of(gate, up, &why);
    EXPECT_EQ(found.has_value(), why == nullptr);
    return why == nullptr ? "" : why;
  }
};

TEST(FusionPatterns, GluOfTwoProductsIsFound) {
  const GatedLayer layer;
  EXPECT_STREQ(layer.refusal(), "");
  EXPECT_EQ(Patterns(layer).glu_of(layer.gate, layer.up)->node, layer.glu);
}
TEST(FusionPatterns, GluIsNotFoundWhereAnotherReadsGate) {
  GatedLayer layer;
  layer.node(QUERN_OP_COPY, {layer.gated}, {layer.value({3, 32})});
  EXPECT_STREQ(layer.refusal(), "gate or up is read by another node too");
}
TEST(FusionPatterns, GluIsNotFoundWhereTheHostReadsUp) {
  GatedLayer layer;
  layer.kept.push_back(layer.upped);
  EXPECT_STREQ(layer.refusal(), "gate or up is read by another node too");
}
TEST(FusionPatterns, GluWithALimitOrAFactorIsNotFound) {
  GatedLayer limited, factor;
  limited.nodes[limited.glu].attributes->reals[QUERN_KEY_LIMIT] = 7;
  factor.nodes[factor.glu].attributes->reals[QUERN_KEY_ALPHA] = 1.702;
  EXPECT_STREQ(limited.refusal(), "its activation has a limit or a factor");
  EXPECT_STREQ(factor.refusal(), "its activation has a limit or a factor");
}
TEST(FusionPatterns, GluUnderAConditionIsNotFound) {
  GatedLayer layer;
  layer.nodes[layer.glu].predicate = layer.value({1}, QUERN_I32);
  EXPECT_STREQ(layer.refusal(), "it runs under a condition");
}
TEST(FusionPatterns, GluOfAProductWithABiasIsNotFound) {
  GatedLayer layer;
  layer.nodes[layer.up].inputs.push_back(layer.value({32}));
  EXPECT_STREQ(layer.refusal(), "gate or up has a bias");
}
TEST(FusionPatterns, GluOfSwappedProductsIsNotFound) {
  GatedLayer layer;
  std::swap(layer.nodes[layer.glu].inputs[0], layer.nodes[layer.glu].inputs[1]);
  EXPECT_STREQ(layer.refusal(), "up is multiplied before gate");
}

/// Gate and up are columns of one product.
struct JoinedGates : SmallGraph {
  std::uint32_t x = value({3, 64}), weight = value({64, 64}), both = value({3, 64}), y = value({3, 32});
  std::uint32_t product = node(QUERN_OP_MATMUL, {x, weight}, {both});
  JoinedGates(std::int64_t gate, std::int64_t up) {
    kept = {x, weight, y};
    node(QUERN_OP_GLU, {columns(both, gate, 32), columns(both, up, 32)}, {y});
  }
};
TEST(FusionPatterns, HalvesOfOneProductAreGateAndUpInEitherOrder) {
  const JoinedGates plain(0, 32), swapped(32, 0);
  const auto first = Patterns(plain).glu_of_columns(plain.product), second = Patterns(swapped).glu_of_columns(swapped.product);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->gate, 0);
  EXPECT_EQ(first->up, 32);
  EXPECT_EQ(second->gate, 32);
}
TEST(FusionPatterns, OtherColumnsThanTheHalvesAreNoGateAndUp) {
  const JoinedGates overlapping(8, 32), same(0, 0);
  EXPECT_FALSE(Patterns(overlapping).glu_of_columns(overlapping.product));
  EXPECT_FALSE(Patterns(same).glu_of_columns(same.product));
}
TEST(FusionPatterns, ColumnsBeginAtWholeEights) {
  SmallGraph g;
  const std::uint32_t all = g.value({3, 64}), eights = g.columns(all, 8, 16), fours = g.columns(all, 4, 16);
  EXPECT_EQ(Patterns(g).columns_of(eights)->first, 8);
  EXPECT_FALSE(Patterns(g).columns_of(fours));
  EXPECT_FALSE(Patterns(g).whole(eights));
}

/// sum = product + other, where `other` is made before the product, or behind it.
struct ResidualSum : SmallGraph {
  std::uint32_t x = value({3, 64}), weight = value({64, 64}), other = value({3, 64}), made = value({3, 64}), sum = value({3, 64});
  std::uint32_t product = 0, maker = none, add = 0;
  explicit ResidualSum(bool behind) {
    kept = {x, weight, sum};
    if (!behind) maker = node(QUERN_OP_COPY, {x}, {other});
    product = node(QUERN_OP_MATMUL, {x, weight}, {made});
    if (behind) maker = node(QUERN_OP_COPY, {x}, {other});
    add = node(QUERN_OP_ADD, {other, made}, {sum});
  }
  std::uint32_t found(bool stored = false, Refusal* why = nullptr) const {
    std::vector<std::uint32_t> stored_at{0, 1, 2};
    if (stored) stored_at[maker] = product;
    std::uint32_t operand = none;
    return Patterns(*this).add_of(product, product, stored_at, operand, why);
  }
};
TEST(FusionPatterns, ResidualSumIsFound) {
  const ResidualSum g(false);
  EXPECT_EQ(g.found(), g.add);
}
TEST(FusionPatterns, ResidualOfAnOperandMadeBehindTheProductIsFoundOnlyWhereAStepStoresItBefore) {
  const ResidualSum g(true);
  Refusal why = nullptr;
  EXPECT_EQ(g.found(false, &why), none);
  EXPECT_STREQ(why, "its other operand is made behind the product");
  EXPECT_EQ(g.found(true), g.add);
}
TEST(FusionPatterns, ResidualSumWrittenInPlaceIsNotFound) {
  ResidualSum g(false);
  g.values[g.sum].root = g.x;  // which the product reads before
  Refusal why = nullptr;
  EXPECT_EQ(g.found(false, &why), none);
  EXPECT_STREQ(why, "its other operand or its result is written in place");
}
TEST(FusionPatterns, ResidualSumOfTheProductWithItselfIsNotFound) {
  ResidualSum g(false);
  g.nodes[g.add].inputs = {g.made, g.made};
  EXPECT_EQ(g.found(), none);
}

/// sum = x + norm(y).
struct SumOfNorm : SmallGraph {
  std::uint32_t x = value({3, 64}), y = value({3, 64}), weight = value({64}), normed = value({3, 64}), sum = value({3, 64});
  std::uint32_t norm = node(QUERN_OP_RMS_NORM, {y, weight}, {normed}), add = node(QUERN_OP_ADD, {x, normed}, {sum});
  SumOfNorm() { kept = {x, y, weight, sum}; }
};
TEST(FusionPatterns, SumOfANormIsFound) {
  const SumOfNorm g;
  const auto found = Patterns(g).normed_sum_at(g.add);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->norm, g.norm);
  EXPECT_EQ(found->input, g.y);
  EXPECT_EQ(found->other, g.x);
}
std::string why_no_normed_sum(const SumOfNorm& g) {
  Refusal why = nullptr;
  const bool found = Patterns(g).normed_sum_at(g.add, &why).has_value();
  EXPECT_EQ(found, why == nullptr);
  return found ? "" : why;
}
TEST(FusionPatterns, SumOfANormThatOthersReadIsNotFound) {
  SumOfNorm g;
  g.node(QUERN_OP_COPY, {g.normed}, {g.value({3, 64})});
  EXPECT_EQ(why_no_normed_sum(g), "the norm is read by another node too");
}
TEST(FusionPatterns, SumOfANormSaysWhatIsInTheWay) {
  const auto with = [](auto change) {
    SumOfNorm g;
    change(g);
    return why_no_normed_sum(g);
  };
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.add].op = QUERN_OP_MUL; }), "it is no sum");
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.add].invariant = true; }), "its rows must not depend on the batch");
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.add].attributes->reals[QUERN_KEY_ALPHA] = 2; }), "an operand has a factor");
  EXPECT_EQ(with([](SumOfNorm& g) { g.values[g.sum].tensor.dtype = QUERN_F16; }), "its result is not packed f32");
  EXPECT_EQ(with([](SumOfNorm& g) { g.values[g.sum].root = g.y; }), "its result is written in place");
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.norm].op = QUERN_OP_COPY; }), "no operand is an rms norm's result");
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.norm].inputs.pop_back(); }), "the norm has no weight");
  EXPECT_EQ(with([](SumOfNorm& g) { g.values[g.x].tensor.dtype = QUERN_F16; }), "its operands are not packed f32 of one shape");
}
TEST(FusionPatterns, BackendSaysWhichRowsItNorms) {
  struct Narrow : Patterns {
    using Patterns::Patterns;
    bool row_norm_serves(const Tensor& x) const override { return x.last() <= 32; }
  };
  const SumOfNorm g;
  EXPECT_EQ(Patterns(g).why_no_row_norm(g.norm), nullptr);
  EXPECT_STREQ(Narrow(g).why_no_row_norm(g.norm), "no kernel norms rows of this size");
}
TEST(FusionPatterns, NormOfRowsSaysWhatIsInTheWay) {
  const auto with = [](auto change) -> std::string {
    SumOfNorm g;
    change(g);
    const Refusal why = Patterns(g).why_no_row_norm(g.norm);
    return why == nullptr ? "" : why;
  };
  EXPECT_EQ(with([](SumOfNorm&) {}), "");
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.norm].op = QUERN_OP_COPY; }), "it is no norm of rows");
  EXPECT_EQ(with([](SumOfNorm& g) { g.nodes[g.norm].predicate = g.value({1}, QUERN_I32); }), "it runs under a condition");
  EXPECT_EQ(with([](SumOfNorm& g) { g.node(QUERN_OP_COPY, {g.y}, {g.weight}); }), "the norm's weight or bias is made in the graph");
  EXPECT_EQ(with([](SumOfNorm& g) { g.values[g.y].tensor.rank = 1; }), "what the norm reads is no matrix");
  EXPECT_EQ(with([](SumOfNorm& g) { g.values[g.y].tensor.dtype = QUERN_BF16; }), "the norm reads or writes what is no packed f32");
  EXPECT_EQ(with([](SumOfNorm& g) { g.node(QUERN_OP_COPY, {g.x}, {g.y}); }), "what the norm reads or its result is written in place");
}

/// y = gelu(x weight).
struct ActivatedProduct : SmallGraph {
  std::uint32_t x = value({3, 64}), weight = value({32, 64}), made = value({3, 32}), y = value({3, 32});
  std::uint32_t product = node(QUERN_OP_MATMUL, {x, weight}, {made}), gelu = node(QUERN_OP_GELU, {made}, {y});
  ActivatedProduct() { kept = {x, weight, y}; }
};
TEST(FusionPatterns, ActivationBehindAProductSaysWhatIsInTheWay) {
  const auto with = [](auto change) -> std::string {
    ActivatedProduct g;
    change(g);
    Refusal why = nullptr;
    const std::uint32_t found = Patterns(g).activation_behind(g.product, &why);
    EXPECT_EQ(found, why == nullptr ? g.gelu : none);
    return why == nullptr ? "" : why;
  };
  EXPECT_EQ(with([](ActivatedProduct&) {}), "");
  EXPECT_EQ(with([](ActivatedProduct& g) { g.kept.push_back(g.made); }), "the product is read by another node too");
  EXPECT_EQ(with([](ActivatedProduct& g) { g.nodes[g.gelu].op = QUERN_OP_COPY; }), "it is no activation");
  EXPECT_EQ(with([](ActivatedProduct& g) { g.nodes[g.gelu].invariant = true; }), "its rows must not depend on the batch");
  EXPECT_EQ(with([](ActivatedProduct& g) { g.node(QUERN_OP_COPY, {g.x}, {g.y}); }), "its result is written in place");
  EXPECT_EQ(with([](ActivatedProduct& g) { g.nodes[g.gelu].inputs = {g.columns(g.made, 0, 16)}; }), "it reads a part of the product");
  EXPECT_EQ(with([](ActivatedProduct& g) { g.values[g.y].tensor.dtype = QUERN_F16; }), "its result is not packed f32");
}

/// The weighted sum of down(glu(gate, up)) of chosen experts.
struct ExpertLayer : SmallGraph {
  std::uint32_t x = value({3, 1, 64}), id = value({3, 2}, QUERN_I32), weight = value({3, 2}), gates = value({8, 32, 64}),
                ups = value({8, 32, 64}), downs = value({8, 64, 32}), gated = value({3, 2, 32}), upped = value({3, 2, 32}),
                inner = value({3, 2, 32}), made = value({3, 2, 64}), y = value({3, 64});
  std::uint32_t gate = node(QUERN_OP_MATMUL_ID, {x, gates, id}, {gated}), up = node(QUERN_OP_MATMUL_ID, {x, ups, id}, {upped}),
                glu = node(QUERN_OP_GLU, {gated, upped}, {inner}), down = node(QUERN_OP_MATMUL_ID, {inner, downs, id}, {made}),
                sum = node(QUERN_OP_MOE_COMBINE, {made, weight}, {y});
  ExpertLayer() { kept = {x, id, weight, gates, ups, downs, y}; }
};
TEST(FusionPatterns, GluOfExpertsSaysWhatIsInTheWay) {
  const auto with = [](auto change) -> std::string {
    ExpertLayer g;
    change(g);
    Refusal why = nullptr;
    const auto found = Patterns(g).expert_glu_at(g.glu, &why);
    EXPECT_EQ(found.has_value(), why == nullptr);
    return why == nullptr ? "" : why;
  };
  EXPECT_EQ(with([](ExpertLayer&) {}), "");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.glu].op = QUERN_OP_MUL; }), "it is no gated activation");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.glu].attributes->reals[QUERN_KEY_LIMIT] = 7; }), "its activation has a limit or a factor");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.glu].inputs.pop_back(); }), "gate and up are halves of one value");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.up].op = QUERN_OP_COPY; }), "what it reads is no product of chosen experts");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.up].invariant = true; }), "its rows must not depend on the batch");
  EXPECT_EQ(with([](ExpertLayer& g) { g.kept.push_back(g.gated); }), "a product of experts is read by another node too");
  EXPECT_EQ(with([](ExpertLayer& g) { g.values[g.gated].offset = 4; }), "it reads a part of a product of experts or a strided view");
  EXPECT_EQ(with([](ExpertLayer& g) { g.node(QUERN_OP_COPY, {g.x}, {g.ups}); }), "weights of experts are made in the graph");
  EXPECT_EQ(with([](ExpertLayer& g) { g.node(QUERN_OP_COPY, {g.id}, {g.id}); }),
            "a product of experts, its operand or its choices are written in place");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.glu].inputs[1] = g.gated; }), "gate and up are one product");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.up].inputs[0] = g.value({3, 1, 64}); }), "gate and up are products of different operands");
  EXPECT_EQ(with([](ExpertLayer& g) {
              g.nodes[g.up].inputs[2] = g.value({3, 2}, QUERN_I32);
            }),
            "gate and up are products of different experts");
}
TEST(FusionPatterns, SumOfExpertsSaysWhatIsInTheWay) {
  const auto with = [](auto change) -> std::string {
    ExpertLayer g;
    change(g);
    Refusal why = nullptr;
    const std::uint32_t found = Patterns(g).expert_product_of(g.sum, &why);
    EXPECT_EQ(found, why == nullptr ? g.down : none);
    return why == nullptr ? "" : why;
  };
  EXPECT_EQ(with([](ExpertLayer&) {}), "");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.sum].op = QUERN_OP_COPY; }), "it is no weighted sum of experts");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.sum].predicate = g.value({1}, QUERN_I32); }), "it runs under a condition");
  EXPECT_EQ(with([](ExpertLayer& g) { g.node(QUERN_OP_COPY, {g.x}, {g.y}); }), "its weights or its result are written in place");
  EXPECT_EQ(with([](ExpertLayer& g) { g.values[g.y].tensor.dtype = QUERN_F16; }), "its result is not packed f32");
  EXPECT_EQ(with([](ExpertLayer& g) { g.nodes[g.down].op = QUERN_OP_COPY; }), "what it reads is no product of chosen experts");
  EXPECT_EQ(with([](ExpertLayer& g) { g.kept.push_back(g.made); }), "a product of experts is read by another node too");
}

/// Attention over a cache that this step writes, with rotations of queries and keys.
struct AttentionLayer : SmallGraph {
  std::uint32_t table = value({100, 8}), q = value({3, 4, 16}), k = value({3, 2, 16}), v = value({3, 2, 16}), turned_q = value({3, 4, 16}),
                turned_k = value({3, 2, 16}), keys = value({8, 2, 16, 16}, QUERN_F16), values_ = value({8, 2, 16, 16}, QUERN_F16),
                pages = value({1, 8}, QUERN_I32), slots = value({3}, QUERN_I32), positions = value({3}, QUERN_I32), y = value({3, 4, 16});
  std::uint32_t rope_q = node(QUERN_OP_ROPE, {q, positions, table}, {turned_q}),
                rope_k = node(QUERN_OP_ROPE, {k, positions, table}, {turned_k}),
                write_k = node(QUERN_OP_KV_WRITE, {turned_k, pages, slots, positions}, {keys}),
                write_v = node(QUERN_OP_KV_WRITE, {v, pages, slots, positions}, {values_}),
                attention = node(QUERN_OP_ATTENTION, {turned_q, keys, values_, pages, slots, positions}, {y});
  AttentionLayer() {
    kept = {table, keys, values_, pages, slots, positions, q, k, v, y};
    nodes[attention].attributes->integers[QUERN_KEY_CAUSAL] = 1;
  }
  std::string refusal() {
    nodes[attention].inputs[5] = positions;
    Refusal why = nullptr;
    const auto found = Patterns(*this).attention_at(attention, &why);
    return found ? "" : why;
  }
};
TEST(FusionPatterns, AttentionTakesItsRotationsAndWrites) {
  AttentionLayer layer;
  ASSERT_EQ(layer.refusal(), "");
  const auto found = Patterns(layer).attention_at(layer.attention);
  EXPECT_EQ(found->nodes, (std::vector<std::uint32_t>{layer.rope_q, layer.rope_k, layer.write_k, layer.write_v}));
  EXPECT_EQ(found->q, layer.q);
  EXPECT_EQ(found->norm_q, none);
  EXPECT_STREQ(found->why_no_norms, "queries and keys have not both a norm");
}
TEST(FusionPatterns, AttentionThatIsNotCausalIsNotFound) {
  AttentionLayer layer;
  layer.nodes[layer.attention].attributes->integers[QUERN_KEY_CAUSAL] = 0;
  EXPECT_EQ(layer.refusal(), "it is not causal");
}
TEST(FusionPatterns, AttentionWithAnInverseRotationIsNotFound) {
  AttentionLayer layer;
  layer.nodes[layer.rope_k].attributes->integers[QUERN_KEY_INVERSE] = 1;
  EXPECT_EQ(layer.refusal(), "a rotation before it is inverse");
}
TEST(FusionPatterns, AttentionWhoseRotatedQueriesOthersReadIsNotFound) {
  AttentionLayer layer;
  layer.node(QUERN_OP_COPY, {layer.turned_q}, {layer.value({3, 4, 16})});
  EXPECT_EQ(layer.refusal(), "rotated queries or keys are read by another node too");
}
TEST(FusionPatterns, AttentionWithTwoTablesIsNotFound) {
  AttentionLayer layer;
  layer.nodes[layer.rope_k].inputs[2] = layer.value({100, 8});
  EXPECT_EQ(layer.refusal(), "queries and keys are rotated by other tables or in other pairs");
}
TEST(FusionPatterns, AttentionWhoseCacheIsWrittenAtOtherSlotsIsNotFound) {
  AttentionLayer layer;
  layer.nodes[layer.write_v].inputs[2] = layer.value({3}, QUERN_I32);
  EXPECT_EQ(layer.refusal(), "a cache is written under another table of pages, other slots or positions");
}
TEST(FusionPatterns, AttentionWhoseCacheAnotherReadsBeforeItIsNotFound) {
  AttentionLayer layer;
  layer.nodes[layer.rope_q].inputs.push_back(layer.keys);
  EXPECT_EQ(layer.refusal(), "another node before it reads its cache");
}

/// y = x weight + what the adapters of x's rows give.
struct AdaptedLayer : SmallGraph {
  std::uint32_t x = value({3, 64}), weight = value({32, 64}), pool = value({512}), table = value({2, 4}, QUERN_I32),
                slot = value({3}, QUERN_I32), base = value({3, 32}), y = value({3, 32});
  std::uint32_t product = node(QUERN_OP_MATMUL, {x, weight}, {base}),
                adapted = node(QUERN_OP_LORA_MATMUL, {x, pool, table, slot, base}, {y});
  AdaptedLayer() { kept = {x, weight, pool, table, slot, y}; }
  const char* refusal() const {
    Refusal why = nullptr;
    const std::uint32_t found = quern::sdk::fusion::AdapterPattern<SmallGraph>(*this).adapted_product_of(adapted, &why);
    EXPECT_EQ(found, why == nullptr ? product : none);
    return why == nullptr ? "" : why;
  }
};

TEST(FusionPatterns, AdaptersAreFoundBehindTheirProduct) { EXPECT_STREQ(AdaptedLayer().refusal(), ""); }
TEST(FusionPatterns, AdaptersAreNotFoundWhereTheProductHasAnotherReader) {
  AdaptedLayer layer;
  layer.node(QUERN_OP_COPY, {layer.base}, {layer.value({3, 32})});
  EXPECT_STREQ(layer.refusal(), "its product is read by another node too");
}
TEST(FusionPatterns, AdaptersAreNotFoundWhereTheHostSeesTheProduct) {
  AdaptedLayer layer;
  layer.kept.push_back(layer.base);
  EXPECT_STREQ(layer.refusal(), "its product is read by another node too");
}
TEST(FusionPatterns, AdaptersAreNotFoundOfAnotherOperand) {
  AdaptedLayer layer;
  layer.nodes[layer.adapted].inputs[0] = layer.value({3, 64});
  EXPECT_STREQ(layer.refusal(), "it reads another operand than its product");
}
TEST(FusionPatterns, AdaptersAreNotFoundWithoutAProduct) {
  AdaptedLayer layer;
  layer.nodes[layer.adapted].inputs.pop_back();
  EXPECT_STREQ(layer.refusal(), "it adds to nothing");
  AdaptedLayer of_copy;
  of_copy.nodes[of_copy.product].op = QUERN_OP_COPY;
  EXPECT_STREQ(of_copy.refusal(), "what it adds to is the result of no product");
}
TEST(FusionPatterns, AdaptersThatTheRunMakesAreNotFound) {
  AdaptedLayer layer;
  layer.node(QUERN_OP_COPY, {layer.x}, {layer.pool});
  EXPECT_STREQ(layer.refusal(), "its adapters are made in the graph");
}
TEST(FusionPatterns, AdaptersOfAnOperandThatIsWrittenInPlaceAreNotFound) {
  AdaptedLayer layer;
  layer.node(QUERN_OP_COPY, {layer.weight}, {layer.x});
  EXPECT_STREQ(layer.refusal(), "its operands or its result are written in place");
}
TEST(FusionPatterns, AdaptersInAStridedViewOrOf16BitsAreNotFound) {
  AdaptedLayer strided;
  strided.values[strided.table].tensor.strides[0] = 32;
  EXPECT_STREQ(strided.refusal(), "its adapters are a strided view");
  AdaptedLayer half;
  half.nodes[half.adapted].outputs = {half.value({3, 32}, QUERN_F16)};
  EXPECT_STREQ(half.refusal(), "its operands or its result are not f32");
}
TEST(FusionPatterns, AdaptersUnderAConditionStandAlone) {
  AdaptedLayer layer;
  layer.nodes[layer.product].invariant = true;
  EXPECT_STREQ(layer.refusal(), "its rows must not depend on the batch");
}

/// Two products of x whose columns are in another order.
struct OrderedLayer : SmallGraph {
  std::uint32_t x = value({3, 64}), index = value({64}, QUERN_I32), in_order = value({3, 64}), weight = value({32, 64}), y = value({3, 32}),
                other = value({3, 32});
  std::uint32_t take = node(QUERN_OP_TAKE, {x, index}, {in_order}), first = node(QUERN_OP_MATMUL, {in_order, weight}, {y}),
                second = node(QUERN_OP_MATMUL, {in_order, weight}, {other});
  OrderedLayer() { kept = {x, index, weight, y, other}; }
  std::string refusal() const {
    const Refusal why = quern::sdk::fusion::OrderPattern<SmallGraph>(*this).why_no_order(take);
    return why == nullptr ? "" : why;
  }
};

TEST(FusionPatterns, OrderIsFoundInFrontOfItsProducts) { EXPECT_EQ(OrderedLayer().refusal(), ""); }
TEST(FusionPatterns, OrderIsNotFoundWhereOthersReadItsResult) {
  OrderedLayer copied;
  copied.node(QUERN_OP_COPY, {copied.in_order}, {copied.value({3, 64})});
  EXPECT_EQ(copied.refusal(), "its result is read by a node that is no product");
  OrderedLayer kept;
  kept.kept.push_back(kept.in_order);
  EXPECT_EQ(kept.refusal(), "the host reads its result");
  OrderedLayer weights;
  weights.nodes[weights.second].inputs[1] = weights.in_order;
  EXPECT_EQ(weights.refusal(), "its result is more than the operand of a product");
  OrderedLayer part;
  part.nodes[part.second].inputs[0] = part.columns(part.in_order, 0, 32);
  EXPECT_EQ(part.refusal(), "a product reads a part of its result or a strided view");
}
TEST(FusionPatterns, OrderByAnotherIndexIsNotFound) {
  OrderedLayer shorter;
  shorter.nodes[shorter.take].inputs[1] = shorter.value({63}, QUERN_I32);
  EXPECT_EQ(shorter.refusal(), "its index has not as many elements as a row");
  OrderedLayer wide;
  wide.nodes[wide.take].inputs[1] = wide.value({64}, QUERN_I64);
  EXPECT_EQ(wide.refusal(), "its index is a strided view or not i32");
  OrderedLayer made;
  made.node(QUERN_OP_COPY, {made.x}, {made.index});
  EXPECT_EQ(made.refusal(), "its index is made in the graph");
}
TEST(FusionPatterns, OrderOfWhatIsWrittenInPlaceIsNotFound) {
  OrderedLayer layer;
  layer.node(QUERN_OP_COPY, {layer.weight}, {layer.x});
  EXPECT_EQ(layer.refusal(), "what it reads or its result is written in place");
}
TEST(FusionPatterns, OrderOfAPartOrOf16BitsIsNotFound) {
  OrderedLayer part;
  part.nodes[part.take].inputs[0] = part.columns(part.value({3, 128}), 64, 64);
  EXPECT_EQ(part.refusal(), "what it reads or its result is a part of a value or a strided view");
  OrderedLayer half;
  half.nodes[half.take].inputs[0] = half.value({3, 64}, QUERN_F16);
  EXPECT_EQ(half.refusal(), "what it reads or its result is not f32");
}
TEST(FusionPatterns, OrderUnderAConditionStandsAlone) {
  OrderedLayer layer;
  layer.nodes[layer.second].invariant = true;
  EXPECT_EQ(layer.refusal(), "its rows must not depend on the batch");
}

}  // namespace
