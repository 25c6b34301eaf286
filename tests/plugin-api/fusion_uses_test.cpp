// What rules of fusion ask of a graph (quern/sdk/fusion/uses.hpp), on graphs of a few nodes.
#include "quern/sdk/fusion/uses.hpp"

#include <gtest/gtest.h>

namespace {

/// As much of a resolved graph as the questions are about: value `v` is memory of `roots[v]`, the host sees those in `kept`.
struct SmallGraph {
  struct Value {
    std::uint32_t root;
  };
  struct Node {
    std::vector<std::uint32_t> inputs, outputs;
    std::uint32_t predicate = QUERN_NONE;
    bool invariant = false;
    std::uint32_t op = QUERN_OP_COPY;
  };
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<std::uint32_t> kept;

  bool internal(std::uint32_t root) const noexcept { return std::find(kept.begin(), kept.end(), root) == kept.end(); }
};
using Uses = quern::sdk::fusion::Uses<SmallGraph>;

constexpr std::uint32_t x = 0, normed = 1, a = 2, sum = 3, y = 4, weight = 5;

/// n = norm(x); sum = x + a; y = product(n, weight); `in_place`: sum is the memory of x.
SmallGraph norm_add_product(bool in_place) {
  SmallGraph g;
  for (std::uint32_t v = 0; v < 6; ++v) g.values.push_back({v == sum && in_place ? x : v});
  g.nodes = {{{}, {x}}, {{x}, {normed}}, {{x, a}, {sum}}, {{normed, weight}, {y}}};
  g.kept = {a, y, weight};
  return g;
}

TEST(FusionUses, ValueWrittenInPlaceIsNotStable) {
  const SmallGraph apart = norm_add_product(false), in_place = norm_add_product(true);
  EXPECT_TRUE(Uses(apart).stable(x));
  EXPECT_FALSE(Uses(in_place).stable(x));
  EXPECT_FALSE(Uses(in_place).stable(sum));  // the same memory
  EXPECT_TRUE(Uses(in_place).stable(normed));
}

TEST(FusionUses, SteadyLooksOnlyBetweenTheTwoNodes) {
  const SmallGraph g = norm_add_product(true);
  const Uses uses(g);
  EXPECT_FALSE(uses.steady(x, 1, 3));  // the sum is node 2
  EXPECT_TRUE(uses.steady(x, 0, 1));
  EXPECT_TRUE(uses.steady(x, 2, 3));
  EXPECT_TRUE(uses.steady(weight, 0, 3));
}

TEST(FusionUses, InputOfTheHostThatANodeWritesIsNotStableWhereItWasReadBefore) {
  SmallGraph g;
  g.values = {{0}, {1}, {0}};
  g.nodes = {{{0}, {1}}, {{1}, {2}}};
  g.kept = {0};
  const Uses uses(g);
  EXPECT_FALSE(uses.stable(0));
  EXPECT_FALSE(uses.given(0));
  EXPECT_TRUE(uses.stable(1));
}

TEST(FusionUses, SequenceNumberThatTokenPublishCountsUpIsWritten) {
  SmallGraph g;
  g.values = {{0}, {1}, {2}, {3}};
  g.nodes = {{{1}, {3}}, {{0, 1}, {2}, QUERN_NONE, false, QUERN_OP_TOKEN_PUBLISH}};
  const Uses uses(g);
  EXPECT_EQ(uses.writers(1), (std::vector<std::uint32_t>{1}));
  EXPECT_FALSE(uses.given(1));
  EXPECT_FALSE(uses.stable(1));  // read before
  EXPECT_TRUE(uses.given(0));
}

TEST(FusionUses, NothingIsGivenThatANodeMakes) {
  const SmallGraph g = norm_add_product(false);
  const Uses uses(g);
  EXPECT_TRUE(uses.given(weight));
  EXPECT_TRUE(uses.given(QUERN_NONE));
  EXPECT_FALSE(uses.given(normed));
  EXPECT_EQ(uses.maker(weight), QUERN_NONE);
  EXPECT_EQ(uses.maker(normed), 1u);
}

TEST(FusionUses, ReadersCountEachReadAndPredicates) {
  SmallGraph g;
  g.values = {{0}, {1}, {2}};
  g.nodes = {{{0, 0}, {1}}, {{1}, {2}, 0}};
  const Uses uses(g);
  EXPECT_EQ(uses.readers(0), (std::vector<std::uint32_t>{0, 0, 1}));
  EXPECT_FALSE(uses.only_reader(0, 0));
  EXPECT_TRUE(uses.only_reader(1, 1));
}

TEST(FusionUses, WhatTheHostSeesHasMoreReadersThanNodes) {
  SmallGraph g = norm_add_product(false);
  g.kept.push_back(normed);
  EXPECT_TRUE(Uses(g).kept(normed));
  EXPECT_FALSE(Uses(g).only_reader(normed, 3));
}

TEST(FusionUses, ConditionsAndInvarianceStandAlone) {
  SmallGraph g = norm_add_product(false);
  g.nodes[1].predicate = a;
  g.nodes[2].invariant = true;
  const Uses uses(g);
  EXPECT_EQ(uses.alone_because(0), nullptr);
  EXPECT_STREQ(uses.alone_because(1), "it runs under a condition");
  EXPECT_STREQ(uses.alone_because(2), "its rows must not depend on the batch");
}

TEST(FusionUses, WhoseStepsKeepTheBitsOfARowTakesInvariantNodes) {
  SmallGraph g = norm_add_product(false);
  g.nodes[1].predicate = a;
  g.nodes[2].invariant = true;
  const Uses uses(g, true);
  EXPECT_STREQ(uses.alone_because(1), "it runs under a condition");
  EXPECT_EQ(uses.alone_because(2), nullptr);
}

TEST(FusionUses, VersionCountsTheWritesBeforeANode) {
  const SmallGraph g = norm_add_product(true);
  const Uses uses(g);
  EXPECT_EQ(uses.version(x, 0), 0u);
  EXPECT_EQ(uses.version(x, 1), 1u);
  EXPECT_EQ(uses.version(sum, 2), 1u);  // the same memory, as the sum reads it
  EXPECT_EQ(uses.version(x, 3), 2u);
  EXPECT_EQ(uses.version(weight, 3), 0u);
}

/// Values with shapes, no nodes.
struct ShapedGraph {
  struct Value {
    std::uint32_t root;
    quern::sdk::Tensor tensor;
    std::uint64_t offset, bytes;
  };
  std::vector<Value> values;
  std::vector<SmallGraph::Node> nodes;

  bool internal(std::uint32_t) const noexcept { return true; }
  /// Of f32, `columns` of each of three rows of value 0 from `first` on; its rows `row` elements apart.
  void add(std::int64_t first, std::int64_t columns, std::int64_t row) {
    quern::sdk::Tensor t;
    t.dtype = QUERN_F32;
    t.rank = 2;
    t.dims[0] = 3, t.dims[1] = columns;
    t.strides[0] = row * 4, t.strides[1] = 4;
    values.push_back({0, t, static_cast<std::uint64_t>(first) * 4, static_cast<std::uint64_t>(2 * row + columns) * 4});
  }
};

TEST(FusionUses, ColumnsAreAPackedPartOfEachRow) {
  ShapedGraph g;
  g.add(0, 64, 64);   // all
  g.add(16, 32, 64);  // a part of each row
  g.add(12, 32, 64);  // which begins at no multiple of eight
  g.add(40, 32, 64);  // which reaches into the next row
  g.add(0, 32, 32);   // packed rows of other lengths
  g.add(8, 32, 64);
  g.values.back().tensor.dtype = QUERN_F16;
  g.add(8, 32, 64);
  g.values.back().tensor.strides[1] = 8;
  const quern::sdk::fusion::Uses<ShapedGraph> uses(g);
  EXPECT_TRUE(uses.whole(0));
  EXPECT_FALSE(uses.whole(1));
  ASSERT_TRUE(uses.columns_of(0));
  EXPECT_EQ(uses.columns_of(0)->count, 64);
  ASSERT_TRUE(uses.columns_of(1));
  EXPECT_EQ(uses.columns_of(1)->first, 16);
  EXPECT_EQ(uses.columns_of(1)->count, 32);
  EXPECT_EQ(uses.columns_of(1)->of, 64);
  for (std::uint32_t v = 2; v < g.values.size(); ++v) EXPECT_FALSE(uses.columns_of(v)) << "value " << v;
}

}  // namespace
