// Values, symbols, views and nodes: what a graph accepts and in which words it refuses.
#include "rule_cases.hpp"

#include "quern/graph/op_info.hpp"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

using graph::Graph;

/// The text of the Error that `act` throws; a test failure and "" if it throws none.
template <typename Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_INVALID_ARGUMENT);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

#define EXPECT_SAYS(text, word) EXPECT_NE((text).find(word), std::string::npos) << (text) << "\nlacks: " << (word)

TEST(Values, AShapeIsDescribedWithTheNamesOfItsSymbols) {
  Bench b;
  EXPECT_EQ(b.g.describe(b.f32({b.t, 576})), "f32 [tokens<=16, 576]");
  EXPECT_EQ(graph::to_string({b.t, 576}), "[s1<=16, 576]");
  EXPECT_EQ(graph::to_string({}), "[]");
}

TEST(Values, ARangedDimensionHasTheLargestSizeOfItsSymbol) {
  Bench b;
  EXPECT_SAYS(refusal([&] { b.f32({Dim(8, b.t.symbol)}); }), "a dimension of 8 under the symbol 'tokens', whose largest value is 16");
  EXPECT_SAYS(refusal([&] { b.f32({Dim(8, 99)}); }), "the symbol 99 but graph 'bench' has 2");
}

TEST(Values, SixDimensionsArePossibleAndSevenAreNot) {
  Bench b;
  EXPECT_NO_THROW(b.f32({1, 2, 3, 4, 5, 6}));
  EXPECT_SAYS(refusal([&] { b.f32({1, 2, 3, 4, 5, 6, 7}); }), "7 dimensions");
}

TEST(Values, SizesThatOverflowAreRefused) {
  Bench b;
  EXPECT_SAYS(refusal([&] { b.f32({1ll << 40, 1ll << 40}); }), "2^63");
  EXPECT_SAYS(refusal([&] { b.f32({0, 1ll << 40, 1ll << 40}); }), "2^63");  // its strides would overflow
  EXPECT_SAYS(refusal([&] { b.f32({-1}); }), "negative");
  EXPECT_SAYS(refusal([&] { b.in(99, {1}); }), "dtype 99");
  EXPECT_SAYS(refusal([&] { b.weight(QUERN_Q4_K, {255}); }), "multiple of 256");
  EXPECT_SAYS(refusal([&] { b.weight(QUERN_Q8_0, {}); }), "scalar");
}

TEST(Values, OnlyAViewHasStridesOfItsOwn) {
  Bench b;
  graph::Value value{.name = "v", .kind = QUERN_VALUE_INPUT, .shape = {2, 2}, .strides = {16, 4}};
  EXPECT_SAYS(refusal([&] { b.g.add_value(value); }), "only a view");
  value.kind = 9;
  EXPECT_SAYS(refusal([&] { b.g.add_value(value); }), "kind 9");
}

TEST(Symbols, RangesAreChecked) {
  Graph g("g");
  EXPECT_SAYS(refusal([&] { g.add_symbol({.name = "t", .min = 3, .max = 2}); }), "ranges from 3 to 2");
  EXPECT_SAYS(refusal([&] { g.add_symbol({.name = "t", .min = 0, .max = 10, .multiple_of = 4}); }), "multiple_of 4");
  EXPECT_SAYS(refusal([&] { g.add_symbol({.name = "t", .min = 0, .max = 8, .extent = g.input("n", QUERN_I32, {1})}); }), "of kind state");
  EXPECT_EQ(g.add_symbol({.name = "t", .min = 0, .max = 8, .extent = g.state("n", QUERN_I32, {1})}), 1u);
}

TEST(Views, AColumnBlockOfRangedRowsIsAView) {
  Bench b;
  const ValueId qkv = b.f32({b.t, 30});
  const ValueId k = b.g.view(qkv, {b.t, 2, 5}, {120, 20, 4}, 40);
  EXPECT_EQ(b.g.root(k), qkv);
  EXPECT_EQ(b.g.value(k).alias_offset, 40u);
  EXPECT_EQ(b.g.strides(k), (std::vector<std::int64_t>{120, 20, 4}));
  EXPECT_EQ(b.g.value(k).kind, static_cast<std::uint32_t>(QUERN_VALUE_INTERNAL));
}

TEST(Views, AViewOfAViewIsAViewOfTheRoot) {
  Bench b;
  const ValueId base = b.f32({4, 8});
  const ValueId rows = b.g.view(base, {2, 8}, {32, 4}, 32);
  const ValueId row = b.g.view(rows, {8}, {4}, 32);
  EXPECT_EQ(b.g.value(row).alias_of, base);
  EXPECT_EQ(b.g.value(row).alias_offset, 64u);
  EXPECT_TRUE(b.g.value(row).strides.empty());  // contiguous
}

TEST(Views, ReachingBeyondTheMemoryIsRefused) {
  Bench b;
  const ValueId base = b.f32({4, 8});
  EXPECT_NO_THROW(b.g.view(base, {4, 2}, {32, 4}, 24));
  EXPECT_SAYS(refusal([&] { b.g.view(base, {4, 2}, {32, 4}, 28); }), "beyond the 128 bytes");
  EXPECT_SAYS(refusal([&] { b.g.view(base, {5, 2}, {32, 4}, 0); }), "beyond the 128 bytes");
  EXPECT_SAYS(refusal([&] { b.g.view(base, {2}, {4}, ~0ull - 3); }), "beyond");
  EXPECT_SAYS(refusal([&] { b.g.view(b.g.view(base, {2}, {4}, 8), {2}, {4}, ~0ull - 3); }), "overflows");
  EXPECT_SAYS(refusal([&] { b.g.view(base, {2, 2}, {9223372036854775804ll, 9223372036854775804ll}, 0); }), "beyond");
  EXPECT_NO_THROW(b.g.view(base, {0, 8}, {32, 4}, 128));  // no element, no byte
}

TEST(Views, StridesKeepElementsWhole) {
  Bench b;
  EXPECT_SAYS(refusal([&] { b.g.view(b.f32({8}), {2}, {6}, 0); }), "multiple of 4");
  EXPECT_SAYS(refusal([&] { b.g.view(b.f32({8}), {2}, {4}, 2); }), "multiple of 4");
  EXPECT_SAYS(refusal([&] { b.g.view(b.f32({8}), {2}, {-4}, 4); }), "not negative");
  EXPECT_SAYS(refusal([&] { b.g.view(b.f32({8}), {2, 2}, {4}, 0); }), "1 strides");
  EXPECT_SAYS(refusal([&] { b.g.view(b.weight(QUERN_Q8_0, {4, 64}), {4, 32}, {68, 68}, 0); }), "one after another");
  EXPECT_NO_THROW(b.g.view(b.weight(QUERN_Q8_0, {4, 64}), {4, 32}, {68, 34}, 34));
}

TEST(Views, ARangedDimensionIsKept) {
  Bench b;
  const ValueId base = b.f32({b.t, 8});
  EXPECT_SAYS(refusal([&] { b.g.view(base, {1, 8}, {32, 4}, 0); }), "does not keep dimension 0");
  EXPECT_SAYS(refusal([&] { b.g.view(base, {b.t, 4}, {16, 4}, 0); }), "does not keep dimension 0");
  EXPECT_NO_THROW(b.g.view(base, {2, b.t, 4}, {16, 32, 4}, 0));
}

TEST(Reshape, SplitsAndJoinsFixedDimensions) {
  Bench b;
  const ValueId x = b.f32({b.t, 12});
  const ValueId heads = b.g.reshape(x, {b.t, 3, 4});
  EXPECT_EQ(b.g.describe(heads), "f32 [tokens<=16, 3, 4]");
  EXPECT_EQ(b.g.describe(b.g.reshape(heads, {b.t, 12})), "f32 [tokens<=16, 12]");
  EXPECT_EQ(b.g.root(b.g.reshape(heads, {b.t, 12})), x);
}

TEST(Reshape, RefusesOtherCountsRangedDimensionsAndStrides) {
  Bench b;
  EXPECT_SAYS(refusal([&] { b.g.reshape(b.f32({4, 3}), {5, 2}); }), "not as many elements as [5, 2]");
  EXPECT_SAYS(refusal([&] { b.g.reshape(b.f32({b.t, 12}), {16, 12}); }), "does not keep dimension 0");
  EXPECT_SAYS(refusal([&] { b.g.reshape(b.f32({2, b.t}), {b.t, 2}); }), "does not keep dimension 1");
  const ValueId columns = b.g.view(b.f32({4, 8}), {4, 2}, {32, 4}, 0);
  EXPECT_SAYS(refusal([&] { b.g.reshape(columns, {8}); }), "not contiguous");
}

TEST(Nodes, AreNamedInTheirRefusal) {
  Bench b;
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.i32({2}), here()); }), "neg 'here': x is i32 [2]");
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.i32({2})); }), "neg: x is i32 [2]");
  EXPECT_SAYS(refusal([&] { b.g.add_node(4711, {}, {}, {}); }), "op 4711");
}

TEST(Nodes, InputsAreCountedAndKnown) {
  Bench b;
  const ValueId x = b.f32({2});
  EXPECT_SAYS(refusal([&] { b.g.add_node(QUERN_OP_NEG, {}, {}, {}); }), "needs its input x");
  EXPECT_SAYS(refusal([&] { b.g.add_node(QUERN_OP_NEG, {x, x}, {}, {}); }), "has 2 inputs; it takes at most 1");
  EXPECT_SAYS(refusal([&] { b.g.add_node(QUERN_OP_NEG, {77}, {}, {}); }), "value 77");
  EXPECT_SAYS(refusal([&] { b.g.add_node(QUERN_OP_ADD, {x, no_value}, {}, {}); }), "needs its input b");
}

TEST(Nodes, ReadOnlyWhatIsWrittenBefore) {
  Bench b;
  const ValueId x = b.g.add_value({.name = "later", .kind = QUERN_VALUE_INTERNAL, .shape = {2}});
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, x); }), "reads 'later', which no earlier node writes");
  graph::NodeOptions options;
  options.outputs = {x};
  ops::neg(b.g, b.f32({2}), options);
  EXPECT_NO_THROW(ops::neg(b.g, x));
}

TEST(Nodes, WriteAValueOnceUnlessItIsState) {
  Bench b;
  graph::NodeOptions options;
  options.outputs = {ops::neg(b.g, b.f32({2}))};
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "an earlier node has written");
  options.outputs = {b.state(QUERN_F32, {2})};
  EXPECT_NO_THROW(ops::neg(b.g, b.f32({2}), options));
  EXPECT_NO_THROW(ops::neg(b.g, b.f32({2}), options));
  options.outputs = {b.weight(QUERN_F32, {2})};
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "a constant");
}

TEST(Nodes, PartsOfAValueMayBeWrittenByDifferentNodes) {
  Bench b;
  const ValueId whole = b.g.add_value({.name = "whole", .kind = QUERN_VALUE_INTERNAL, .shape = {2, 4}});
  graph::NodeOptions first, second, all;
  first.outputs = {b.g.view(whole, {4}, {4}, 0)};
  second.outputs = {b.g.view(whole, {4}, {4}, 16)};
  all.outputs = {whole};
  ops::neg(b.g, b.f32({4}), first);
  EXPECT_NO_THROW(ops::neg(b.g, b.f32({4}), second));
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2, 4}), all); }), "an earlier node has written");
  EXPECT_NO_THROW(ops::neg(b.g, whole));
}

TEST(Nodes, InPlaceIsForTheGroupsThatAllowIt) {
  Bench b;
  const ValueId x = b.state(QUERN_F32, {b.t, 8});
  graph::NodeOptions options = here();
  options.outputs = {x};
  EXPECT_NO_THROW(ops::scale(b.g, x, 2, 0, options));
  EXPECT_NO_THROW(ops::rms_norm(b.g, x, no_value, {.epsilon = 1}, options));
  EXPECT_SAYS(refusal([&] { ops::softmax(b.g, x, no_value, no_value, {}, options); }), "cannot work in place");
  const ValueId sum = b.state(QUERN_F32, {4, 6});
  options.outputs = {sum};
  EXPECT_NO_THROW(ops::matmul(b.g, b.f32({4, 8}), b.f32({6, 8}), no_value, sum, {}, options));
  EXPECT_SAYS(refusal([&] { ops::matmul(b.g, sum, b.f32({6, 6}), no_value, no_value, {}, options); }), "cannot work in place");
  const ValueId made = ops::matmul(b.g, b.f32({4, 8}), b.f32({6, 8}));
  options.outputs = {b.g.reshape(made, {4, 6})};
  EXPECT_NO_THROW(ops::matmul(b.g, b.f32({4, 8}), b.f32({6, 8}), no_value, made, {}, options));
  const ValueId row = b.state(QUERN_F32, {4, 8});
  options.outputs = {b.g.view(row, {8}, {4}, 0)};
  EXPECT_SAYS(refusal([&] { ops::add(b.g, b.g.view(row, {8}, {4}, 16), b.f32({8}), 1, options); }), "same shape and strides");
  EXPECT_NO_THROW(ops::add(b.g, b.g.view(row, {8}, {4}, 32), b.f32({8}), 1, options));
}

TEST(Nodes, AttributesEqualToTheDefaultAreNotStored) {
  Bench b;
  ops::scale(b.g, b.f32({2}), 1, 0);
  EXPECT_TRUE(b.g.nodes().back().attributes.all().empty());
  ops::scale(b.g, b.f32({2}), 2, 0);
  ASSERT_EQ(b.g.nodes().back().attributes.all().size(), 1u);
  EXPECT_EQ(b.g.nodes().back().attributes.all()[0].f, 2);
  EXPECT_EQ(graph::number_attribute(b.g.nodes().back(), QUERN_KEY_BETA), 0);
  ops::rms_norm(b.g, b.f32({2}), no_value, {.epsilon = 1e-5});  // required: always stored
  EXPECT_EQ(b.g.nodes().back().attributes.all().size(), 1u);
}

TEST(Nodes, MinusZeroIsNotTheDefaultZero) {
  Bench b;
  ops::fill(b.g, {2}, QUERN_F32, -0.0);
  EXPECT_EQ(b.g.nodes().back().attributes.all().size(), 1u);
  ops::fill(b.g, {2}, QUERN_F32, 0.0);
  EXPECT_TRUE(b.g.nodes().back().attributes.all().empty());
}

TEST(Nodes, AnIntegerGivenForANumberIsANumber) {
  Bench b;
  b.g.add_node(QUERN_OP_SCALE, {b.f32({2})}, graph::Attributes().set(QUERN_KEY_ALPHA, 3), {});
  EXPECT_EQ(b.g.nodes().back().attributes.all()[0].type, static_cast<std::uint32_t>(QUERN_ATTR_F64));
  EXPECT_EQ(b.g.nodes().back().attributes.all()[0].f, 3);
  EXPECT_SAYS(refusal([&] { b.g.add_node(QUERN_OP_GELU, {b.f32({2})}, graph::Attributes().set(QUERN_KEY_KIND, 1.0), {}); }),
              "it is an integer");
}

TEST(Nodes, APredicateNeedsOutputsThatMayStayUnwritten) {
  Bench b;
  graph::NodeOptions options = here();
  options.predicate = b.u32({1});
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "may write nothing");
  options.outputs = {b.state(QUERN_F32, {2})};
  EXPECT_NO_THROW(ops::neg(b.g, b.f32({2}), options));
  options.predicate = b.i32({2});  // one a row
  EXPECT_NO_THROW(ops::neg(b.g, b.f32({2}), options));
  options.predicate = b.f32({1});
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "its predicate 'in' is f32 [1]");
  options.predicate = b.i32({3});
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "its predicate");
}

TEST(Nodes, UnknownBitsAreRefused) {
  Bench b;
  graph::NodeOptions options;
  options.conversions = 16;
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "conversions 16");
  options = {};
  options.determinism = 3;
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "determinism 3");
  options = {};
  options.skip_outputs = 1;
  EXPECT_SAYS(refusal([&] { ops::neg(b.g, b.f32({2}), options); }), "not an optional output");
}

TEST(Outputs, OnlyWhatANodeMakesBecomesOne) {
  Bench b;
  const ValueId y = ops::neg(b.g, b.f32({2}));
  b.g.mark_output(y, "result");
  EXPECT_EQ(b.g.value(y).kind, static_cast<std::uint32_t>(QUERN_VALUE_OUTPUT));
  EXPECT_EQ(b.g.value(y).name, "result");
  EXPECT_NO_THROW(ops::neg(b.g, y));  // it may still be read
  EXPECT_SAYS(refusal([&] { b.g.mark_output(b.f32({2}), "x"); }), "cannot become the output 'x'");
  EXPECT_SAYS(refusal([&] { b.g.mark_output(b.g.reshape(y, {1, 2}), "x"); }), "a view");
  EXPECT_SAYS(refusal([&] { b.g.mark_output(99, "x"); }), "99");
}

}  // namespace
}  // namespace quern::test
