// What differentiate() adds, what it leaves out, and what it refuses.
#include "gradient_bench.hpp"

#include "quern/graph/op_info.hpp"

#include <algorithm>

namespace quern::test {
namespace {

using B = GradientBench;
using graph::Node;

std::int64_t count(const B& b, std::uint32_t op) { return std::ranges::count(b.g.nodes(), op, &Node::op); }

/// Differentiates a graph that must be refused, unchanged, with these words.
void refused(B& b, quern_status code, const std::vector<std::string>& words) {
  const std::size_t nodes = b.g.nodes().size(), values = b.g.values().size();
  try {
    b.differentiate();
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
  EXPECT_EQ(b.g.nodes().size(), nodes);
  EXPECT_EQ(b.g.values().size(), values);
}

graph::NodeOptions named(const char* name) {
  graph::NodeOptions options;
  options.name = name;
  return options;
}

TEST(Differentiate, AFrozenWeightAndWhatLiesBelowTheFirstWantedValueCostNothing) {
  B b;
  const ValueId below =
      ops::matmul(b.g, ops::rms_norm(b.g, b.frozen(QUERN_F32, {b.tokens, 4}), no_value, {.epsilon = 1}), b.constant(QUERN_F32, {4, 4}));
  const ValueId trained = ops::matmul(b.g, below, b.f32({4, 4}));
  b.loss(ops::matmul(b.g, ops::silu(b.g, trained), b.constant(QUERN_F32, {2, 4})));
  const std::size_t forward = b.g.nodes().size();
  b.differentiate();
  // d(silu) = dy w, d(trained), dw = d(trained)^T below.
  ASSERT_EQ(b.g.nodes().size(), forward + 3);
  EXPECT_EQ(b.g.nodes()[forward].op, QUERN_OP_MATMUL);
  EXPECT_EQ(b.g.nodes()[forward + 1].op, QUERN_OP_SILU_BACKWARD);
  EXPECT_EQ(b.g.nodes()[forward + 2].op, QUERN_OP_MATMUL);
  EXPECT_EQ(b.g.nodes()[forward + 2].inputs[1], below);
}

TEST(Differentiate, AnOpWithoutAGradientIsNamed) {
  B b;
  b.loss(ops::max(b.g, b.f32({3, 4}), named("pool")));
  refused(b, QUERN_UNSUPPORTED, {"max 'pool'", "has no gradient"});
}

TEST(Differentiate, AnInputWithoutAGradientIsNamed) {
  {
    B b;
    b.loss(ops::attention_dense(b.g, {.q = b.f32({1, 3, 2, 4}), .k = b.f32({1, 3, 2, 4}), .v = b.f32({1, 3, 2, 4}), .mask = b.f32({3, 3})},
                                {.scale = 1}, named("attend"))
               .y);
    refused(b, QUERN_UNSUPPORTED, {"attention_dense 'attend'", "its input mask"});
  }
  {
    B b;
    b.loss(ops::rope(b.g, b.f32({2, 1, 4}), b.i32({2}, {0, 1}), b.f32({4, 2, 2}), {}, named("turn")));
    refused(b, QUERN_UNSUPPORTED, {"rope 'turn'", "its input table"});
  }
}

TEST(Differentiate, PagedAttentionIsRefusedWithWhatToUse) {
  B b;
  const ValueId cache = b.state(QUERN_F32, {2, 1, 2, 4}), page = b.i32({1, 1}, {0}), zero = b.i32({1}, {0});
  b.loss(ops::attention(
      b.g, {.q = b.f32({1, 1, 4}), .k_cache = cache, .v_cache = cache, .block_table = page, .row_slot = zero, .position = zero},
      {.scale = 1}));
  refused(b, QUERN_UNSUPPORTED, {"attention", "attention_dense"});
}

TEST(Differentiate, AnOutputWithoutAGradientIsNamed) {
  B b;
  const auto both = ops::cross_entropy(b.g, b.f32({2, 4}), b.i32({2}, {0, 1}), {}, named("loss"));
  b.loss(both.loss), b.loss(both.lse);
  refused(b, QUERN_UNSUPPORTED, {"cross_entropy 'loss'", "lse"});
  B skipped;
  graph::NodeOptions options = named("attend");
  options.skip_outputs = 2;
  const ValueId x = skipped.f32({1, 3, 2, 4});
  skipped.loss(ops::attention_dense(skipped.g, {.q = x, .k = x, .v = x}, {.scale = 1}, options).y);
  refused(skipped, QUERN_UNSUPPORTED, {"attention_dense 'attend'", "lse"});
}

TEST(Differentiate, AWantedValueThatDoesNotInfluenceTheLossIsNamed) {
  {
    B b;
    b.loss(ops::silu(b.g, b.f32({3})));
    const ValueId idle = b.f32({5});
    refused(b, QUERN_INVALID_ARGUMENT, {"'" + b.g.value(idle).name + "' f32 [5]", "does not influence"});
  }
  {
    B b;  // an index only chooses
    const ValueId index = ops::argmax(b.g, b.f32({3, 4}));
    b.loss(ops::get_rows(b.g, b.f32({4, 2}), index));
    refused(b, QUERN_INVALID_ARGUMENT, {"f32 [3, 4]", "does not influence"});
  }
  {
    B b;  // so does the router's bias
    b.loss(ops::moe_router(b.g, b.f32({3, 4}), b.f32({4}), {.used = 2}).weight);
    refused(b, QUERN_INVALID_ARGUMENT, {"f32 [4]", "does not influence"});
  }
}

TEST(Differentiate, APredicateOnTheWayIsRefused) {
  B b;
  graph::NodeOptions options = named("gate");
  options.predicate = b.i32({1}, {1});
  options.outputs = {b.state(QUERN_F32, {3})};
  b.loss(ops::silu(b.g, b.f32({3}), options));
  refused(b, QUERN_UNSUPPORTED, {"silu 'gate'", "predicate"});
}

TEST(Differentiate, AValueThatIsOverwrittenBeforeBackwardIsRefused) {
  B b;
  const ValueId held = b.state(QUERN_F32, {3});
  b.loss(ops::mul(b.g, b.f32({3}), held, named("product")));
  graph::NodeOptions options = named("later");
  options.outputs = {held};
  ops::scale(b.g, held, 2, 0, options);
  refused(b, QUERN_INVALID_ARGUMENT, {"mul 'product'", "scale 'later'", "overwrites"});
}

TEST(Differentiate, AStateOnTheWayMayHaveOneWriter) {
  for (const int writers : {1, 2}) {
    B b;
    const ValueId held = b.state(QUERN_F32, {3}), x = b.f32({3});
    graph::NodeOptions options;
    for (int i = 0; i < writers; ++i) {
      options = named(i == 0 ? "first" : "second");
      options.outputs = {held};
      ops::silu(b.g, x, options);
    }
    b.loss(ops::sqr(b.g, held));
    if (writers == 1) {
      b.check();
    } else {
      refused(b, QUERN_UNSUPPORTED, {"silu 'first'", "silu 'second'"});
    }
  }
}

TEST(Differentiate, ABlockFormatOnTheWayIsRefused) {
  B b;
  const ValueId packed = ops::cast(b.g, b.f32({2, 32}), QUERN_Q8_0, named("encode"));
  b.loss(ops::matmul(b.g, b.frozen(QUERN_F32, {3, 32}), packed));
  refused(b, QUERN_UNSUPPORTED, {"cast 'encode'", "block format"});
}

TEST(Differentiate, AWeightOfABlockFormatIsCastOnceAUse) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16}) {
    B b(dtype);
    const ValueId w = b.constant(QUERN_Q8_0, {32, 32});
    b.loss(ops::matmul(b.g, ops::matmul(b.g, b.x({b.tokens, 32}), w), w));
    b.check();
    EXPECT_EQ(count(b, QUERN_OP_CAST), 2);
    for (const Node& node : b.g.nodes()) {
      if (node.op != QUERN_OP_CAST) continue;
      EXPECT_EQ(b.g.value(node.outputs[0]).dtype, dtype);
    }
  }
}

TEST(Differentiate, AWeightOfABlockFormatIsMultipliedAsItIsWhereDevicesTurnBlocks) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16})
    for (const bool turned : {false, true}) {
      B b(dtype);
      b.options.may_use.turned_blocks = true;
      b.options.decoded_bytes = 1;
      const ValueId w = b.constant(QUERN_Q8_0, {32, 32});
      b.loss(ops::matmul(b.g, b.x({b.tokens, 32}), w, no_value, no_value, {.transpose_b = turned, .alpha = 0.5}));
      b.check();
      EXPECT_EQ(count(b, QUERN_OP_CAST), 0);
      EXPECT_EQ(b.g.nodes().back().attributes.find(QUERN_KEY_TRANSPOSE_B) != nullptr, !turned);
    }
}

TEST(Differentiate, AWeightThatIsLargeWhenDecodedIsCastInParts) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16}) {
    B b(dtype);
    b.options.decoded_bytes = 1;
    b.loss(ops::matmul(b.g, b.x({b.tokens, 32}), b.constant(QUERN_Q8_0, {600, 32}), no_value, no_value, {.alpha = 0.5}));
    b.check();
    std::vector<std::int64_t> rows;
    for (const Node& node : b.g.nodes())
      if (const graph::Value& value = b.g.value(node.outputs[0]); node.op == QUERN_OP_CAST && value.shape[0].symbol == 0) {
        rows.push_back(value.shape[0].size);
        EXPECT_EQ(value.dtype, dtype);
      }
    EXPECT_EQ(rows, (std::vector<std::int64_t>{256, 256, 88}));
  }
}

TEST(Differentiate, NodesInheritNameConversionsAndDeterminism) {
  B b;
  graph::NodeOptions options = named("blk.0.q");
  options.conversions = QUERN_CONVERT_BF16;
  options.determinism = QUERN_DETERMINISM_FREE;
  b.loss(ops::matmul(b.g, b.f32({3, 4}), b.f32({2, 4}), options));
  const std::size_t forward = b.g.nodes().size();
  b.differentiate();
  ASSERT_EQ(b.g.nodes().size(), forward + 2);
  for (std::size_t n = forward; n < b.g.nodes().size(); ++n) {
    EXPECT_EQ(b.g.nodes()[n].name, "blk.0.q.gradient");
    EXPECT_EQ(b.g.nodes()[n].conversions, static_cast<std::uint32_t>(QUERN_CONVERT_BF16));
    EXPECT_EQ(b.g.nodes()[n].determinism, static_cast<std::uint32_t>(QUERN_DETERMINISM_FREE));
  }
}

TEST(Differentiate, TwoUsesOfSixteenBitsAddAsTheyAreThreeInF32) {
  for (const int uses : {2, 3}) {
    B b(QUERN_BF16);
    const ValueId h = ops::silu(b.g, b.x({b.tokens, 4}));
    for (int i = 0; i < uses; ++i) b.loss(ops::tanh(b.g, h));
    b.check();
    EXPECT_EQ(count(b, QUERN_OP_ADD), uses - 1);
    EXPECT_EQ(count(b, QUERN_OP_CAST), uses == 2 ? 0 : uses + 1);  // each gradient to f32, the sum back
    for (const Node& node : b.g.nodes()) {
      if (node.op != QUERN_OP_ADD) continue;
      EXPECT_EQ(b.g.value(node.outputs[0]).dtype, uses == 2 ? QUERN_BF16 : QUERN_F32);
    }
  }
}

TEST(Differentiate, AProductAddsTheGradientOfItsLeftOperandToWhatOtherUsesGave) {
  B b(QUERN_BF16);
  const ValueId h = ops::silu(b.g, b.x({b.tokens, 4}));
  for (int i = 0; i < 3; ++i) b.loss(ops::matmul(b.g, h, b.constant(QUERN_BF16, {2, 4})));
  b.check();
  EXPECT_EQ(count(b, QUERN_OP_ADD), 0);
  constexpr std::size_t c = 3;
  std::vector<quern_dtype> sums;
  for (const Node& node : b.g.nodes())
    if (node.op == QUERN_OP_MATMUL && node.inputs.size() > c && node.inputs[c] != no_value)
      sums.push_back(b.g.value(node.outputs[0]).dtype);
  EXPECT_EQ(sums, (std::vector<quern_dtype>(2, QUERN_F32)));
}

TEST(Differentiate, TheGradientThroughARoundedCopyOfAParameterIsF32AllTheWay) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_BF16, accumulate);
    const ValueId w = b.f32({6, 4}), x = b.frozen(QUERN_BF16, {b.tokens, 4});
    const ValueId copy = ops::cast(b.g, w, QUERN_BF16);
    const ValueId rows = ops::get_rows(b.g, copy, b.i32({b.tokens}, {0, 1, 1, 5, 2}));  // as a table and a head of one tensor
    b.loss(ops::matmul(b.g, rows, copy));
    b.loss(ops::matmul(b.g, x, copy));
    const std::size_t forward = b.g.nodes().size();
    b.check();
    for (std::size_t n = forward; n < b.g.nodes().size(); ++n) {
      const Node& node = b.g.nodes()[n];
      const graph::Shape& shape = b.g.value(node.outputs[0]).shape;
      if (shape == b.g.value(w).shape) EXPECT_EQ(b.g.value(node.outputs[0]).dtype, QUERN_F32) << node.name << " of op " << node.op;
      EXPECT_NE(node.op, static_cast<std::uint32_t>(QUERN_OP_CAST));
    }
  }
}

TEST(Differentiate, AccumulateIsUsedWhereTheOpHasIt) {
  B b(QUERN_F32, /*accumulate=*/true);
  const ValueId x = ops::get_rows(b.g, b.f32({6, 4}), b.i32({b.tokens}, {0, 1, 1, 5, 2}));
  b.loss(ops::matmul(b.g, ops::rms_norm(b.g, x, b.f32({4}), {.epsilon = 1}), b.f32({2, 4})));
  b.differentiate();
  std::int64_t accumulating = 0;
  for (const Node& node : b.g.nodes())
    if (node.op == QUERN_OP_GET_ROWS_BACKWARD || node.op == QUERN_OP_RMS_NORM_BACKWARD)
      accumulating += graph::integer_attribute(node, QUERN_KEY_ACCUMULATE);
  EXPECT_EQ(accumulating, 2);
  EXPECT_EQ(count(b, QUERN_OP_ADD), 1);  // of the matrix
}

TEST(Differentiate, AProductAddsToItsSumWhereDevicesAddInPlace) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_BF16})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        B b(dtype, /*accumulate=*/true);
        b.options.may_use.sums_in_place = true;
        const graph::ops::MatmulAttributes how{.transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 0.5};
        const ValueId w = b.x(transpose_b ? Shape{4, 2} : Shape{2, 4});
        for (int use = 0; use < 2; ++use)
          b.loss(ops::matmul(b.g, b.frozen(dtype, transpose_a ? Shape{4, b.tokens} : Shape{b.tokens, 4}), w, no_value, no_value, how));
        b.check();
        EXPECT_EQ(count(b, QUERN_OP_ADD), 0);
        EXPECT_EQ(count(b, QUERN_OP_CAST), 0);
      }
  // Heads that share a weight are summed first.
  B groups(QUERN_F32, true);
  groups.options.may_use.sums_in_place = true;
  groups.loss(ops::matmul(groups.g, groups.frozen(QUERN_F32, {4, 3, 5}), groups.f32({2, 2, 5})));
  groups.check();
  EXPECT_EQ(count(groups, QUERN_OP_ADD), 1);
}

TEST(Differentiate, TheGradientOfLogitsLiesOverThemWhereNothingElseReadsThem) {
  enum class Other { none, reader, output, producer };
  for (const Other other : {Other::none, Other::reader, Other::output, Other::producer}) {
    B b;
    b.options.may_use.logits_in_place = true;
    const ValueId product = ops::matmul(b.g, b.x({b.tokens, 3}), b.f32({6, 3}));
    const ValueId logits = other == Other::producer ? ops::tanh(b.g, product) : product;
    b.loss(ops::cross_entropy(b.g, logits, b.i32({b.tokens}, {0, 5, -100, 2, 2}), {.smoothing = 0.1, .z_loss = 0.3}).loss);
    if (other == Other::reader) b.loss(ops::sqr(b.g, logits));
    if (other == Other::output) b.g.mark_output(logits, "logits");
    b.check();
    for (const Node& node : b.g.nodes())
      if (node.op == QUERN_OP_CROSS_ENTROPY_BACKWARD) EXPECT_EQ(b.g.root(node.outputs[0]) == logits, other == Other::none);
    if (other == Other::none) EXPECT_THROW(b.g.mark_output(logits, "late"), Error);
  }
}

TEST(Differentiate, CollectivesTurnIntoTheirTransposes) {
  B b;
  const ValueId x = b.f32({2, 4});
  b.loss(ops::all_gather(b.g, ops::all_reduce(b.g, x), {6, 4}, 0));
  b.loss(ops::reduce_scatter(b.g, x, {1, 4}, 0));
  b.differentiate();
  for (const std::uint32_t op : {QUERN_OP_ALL_REDUCE, QUERN_OP_ALL_GATHER, QUERN_OP_REDUCE_SCATTER}) EXPECT_EQ(count(b, op), 2);
  B largest;
  largest.loss(ops::all_reduce(largest.g, largest.f32({2}), 1, named("most")));
  refused(largest, QUERN_UNSUPPORTED, {"all_reduce 'most'"});
}

TEST(Differentiate, AnUnusedCountOfAMeanHasNoGradient) {
  B b;
  const auto mean = ops::masked_mean(b.g, b.f32({3}), b.i32({3}, {1, 0, 1}));
  b.loss(ops::div(b.g, mean.y, mean.count));
  b.check();
}

TEST(ViewGradients, OfReshapesSlicesAndTranspositions) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_F32, accumulate);
    const ValueId x = ops::silu(b.g, b.f32({b.tokens, 12}));
    b.loss(ops::sqr(b.g, b.g.reshape(x, {b.tokens, 3, 4})));
    // A slice of columns, one column, and [tokens, 3, 4] turned into [3, tokens, 4].
    b.loss(ops::sqr(b.g, b.g.view(x, {b.tokens, 5}, {48, 4}, 8)));
    b.loss(ops::sqr(b.g, b.g.view(x, {b.tokens, 1}, {48, 4}, 44)));
    b.loss(ops::sqr(b.g, b.g.view(x, {3, b.tokens, 4}, {16, 48, 4}, 0)));
    // Rows and columns of a fixed matrix, transposed and cut.
    const ValueId w = ops::silu(b.g, b.f32({4, 6}));
    b.loss(ops::sqr(b.g, b.g.view(w, {3, 2}, {4, 24}, 28)));
    b.check();
  }
}

TEST(ViewGradients, SlicesThatTileAValueAreJoinedByOneConcat) {
  B b(QUERN_BF16);
  const ValueId fused = ops::silu(b.g, b.x({b.tokens, 12}));
  const ValueId q = b.g.view(fused, {b.tokens, 2, 4}, {24, 8, 2}, 0);
  const ValueId k = b.g.view(fused, {b.tokens, 1, 2}, {24, 4, 2}, 16), v = b.g.view(fused, {b.tokens, 2}, {24, 2}, 20);
  for (const ValueId part : {v, q, k}) b.loss(ops::sqr(b.g, part));
  b.check();
  EXPECT_EQ(count(b, QUERN_OP_CONCAT), 1);
  EXPECT_EQ(count(b, QUERN_OP_PAD), 0);
}

TEST(ViewGradients, OfAValueThatIsWrittenInParts) {
  B b;
  const ValueId whole = b.g.add_value({.name = "whole", .kind = QUERN_VALUE_INTERNAL, .dtype = QUERN_F32, .shape = {4, 3}});
  graph::NodeOptions options;
  options.outputs = {b.g.reshape(b.g.view(whole, {1, 3}, {12, 4}, 0), {3})};
  ops::silu(b.g, b.f32({3}), options);
  options.outputs = {b.g.view(whole, {3, 3}, {12, 4}, 12)};
  ops::sqr(b.g, b.f32({3, 3}), options);
  b.loss(ops::sqr(b.g, whole));
  b.check();
}

TEST(ViewGradients, APartOfMemoryThatBackwardOnlyPassesNextToIsRefused) {
  B b;
  const ValueId whole = b.g.add_value({.name = "whole", .kind = QUERN_VALUE_INTERNAL, .dtype = QUERN_F32, .shape = {6}});
  const ValueId part = b.g.view(whole, {3}, {4}, 12);
  graph::NodeOptions options = named("trained");
  options.outputs = {b.g.view(whole, {3}, {4}, 0)};
  ops::silu(b.g, b.f32({3}), options);
  options = named("frozen");
  options.outputs = {part};
  ops::silu(b.g, b.frozen(QUERN_F32, {3}), options);
  b.want(part);
  b.loss(ops::sqr(b.g, whole));
  refused(b, QUERN_UNSUPPORTED, {"written in parts", "silu 'frozen'"});
}

TEST(Differentiate, AStateOnTheWayMayNotHoldAParameter) {
  B b;
  const ValueId held = b.state(QUERN_F32, {6});
  b.want(b.g.view(held, {3}, {4}, 12));
  graph::NodeOptions options = named("writer");
  options.outputs = {b.g.view(held, {3}, {4}, 0)};
  ops::silu(b.g, b.f32({3}), options);
  b.loss(ops::sqr(b.g, held));
  refused(b, QUERN_UNSUPPORTED, {"silu 'writer'", "holds the parameter"});
}

TEST(ViewGradients, AViewThatRepeatsElementsIsRefused) {
  B b;
  const ValueId x = ops::silu(b.g, b.f32({4}));
  b.loss(ops::sqr(b.g, b.g.view(x, {3, 4}, {0, 4}, 0)));
  refused(b, QUERN_UNSUPPORTED, {"f32 [3, 4]", "strides"});
}

TEST(ViewGradients, SlicesOfAFlatStateAddToTheSameSlicesOfItsSum) {
  for (const bool accumulate : {false, true}) {
    B b(QUERN_F32, accumulate);
    const ValueId flat = b.f32({40}), x = b.frozen(QUERN_F32, {b.tokens, 4});
    const ValueId first = b.g.view(flat, {3, 4}, {16, 4}, 0), second = b.g.view(flat, {2, 4}, {16, 4}, 96);
    b.loss(ops::matmul(b.g, x, first));
    b.loss(ops::matmul(b.g, x, second));
    b.loss(ops::rms_norm(b.g, x, b.g.view(flat, {4}, {4}, 48), {.epsilon = 1}));
    b.check();
    if (!accumulate) continue;
    const ValueId into = b.wanted_values()[0].into;
    std::vector<std::uint64_t> offsets;
    for (const Node& node : b.g.nodes())
      for (const ValueId output : node.outputs)
        if (output != no_value && b.g.root(output) == into) offsets.push_back(b.g.value(output).alias_offset);
    EXPECT_EQ(offsets, (std::vector<std::uint64_t>{48, 96, 0}));
  }
}

TEST(ViewGradients, ViewsThatAreReadTogetherGetTheirShares) {
  // Two adapters side by side, read as one matrix and one of them alone too.
  B b;
  const ValueId flat = b.state(QUERN_F32, {24}), x = b.frozen(QUERN_F32, {b.tokens, 4});
  const ValueId sums = b.g.state("sums", QUERN_F32, {2, 4}), joint = b.g.view(flat, {4, 4}, {16, 4}, 32);
  const ValueId a = b.g.view(flat, {2, 4}, {16, 4}, 32), c = b.g.view(flat, {2, 4}, {16, 4}, 64);
  const ValueId y = ops::matmul(b.g, x, joint), z = ops::matmul(b.g, x, a);
  b.loss(y), b.loss(z);
  const auto found = graph::differentiate(b.g, b.seeds(), {{a, sums}, {c}});
  EXPECT_EQ(found[0], sums);
  EXPECT_EQ(b.g.describe(found[1]), "f32 [2, 4]");
  ReferenceInterpreter run(b.g);
  run.extent(b.tokens.symbol, 1);
  run.set(x, std::vector<double>{1, 2, 3, 4});
  run.set(b.seeds()[0].gradient, std::vector<double>{1, 10, 100, 1000});
  run.set(b.seeds()[1].gradient, std::vector<double>{5, 7});
  run.set(sums, std::vector<double>(8, 0.5));
  run.run();
  EXPECT_EQ(run.get(sums), (std::vector<double>{6.5, 12.5, 18.5, 24.5, 17.5, 34.5, 51.5, 68.5}));
  EXPECT_EQ(run.get(found[1]), (std::vector<double>{100, 200, 300, 400, 1000, 2000, 3000, 4000}));
}

TEST(Differentiate, AChunkedHeadIsDifferentiatedPieceByPiece) {
  // Each chunk goes back to a sum over the hidden rows at once; one more call goes on from there.
  B b;
  const ValueId w = b.f32({4, 4}), head = b.f32({6, 4});
  const ValueId hidden = ops::silu(b.g, ops::matmul(b.g, b.frozen(QUERN_F32, {b.tokens, 4}), w));
  for (const std::int64_t row : {0, 2}) {
    const ValueId rows = ops::get_rows(b.g, hidden, b.i32({2}, {row, row + 2}));
    b.loss(ops::cross_entropy(b.g, ops::matmul(b.g, rows, head), b.i32({2}, {1, 5})).loss);
  }
  B whole = b;
  whole.differentiate();
  const auto expected = whole.gradients();

  const ValueId dhidden = b.g.state("dhidden", QUERN_F32, {b.tokens, 4}), dhead = b.g.state("dhead", QUERN_F32, {6, 4});
  for (const graph::GradientSeed& seed : b.seeds()) {
    const auto found = graph::differentiate(b.g, {seed}, {{hidden, dhidden}, {head, dhead}});
    EXPECT_EQ(found, (std::vector<ValueId>{dhidden, dhead}));
  }
  const ValueId dw = graph::differentiate(b.g, {{hidden, dhidden}}, {{w}})[0];
  const auto got = b.values({dw, dhead});
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < expected[i].size(); ++k) EXPECT_NEAR(got[i][k], expected[i][k], 1e-12);
}

TEST(Differentiate, ChecksWhatItIsAsked) {
  const auto says = [](const std::vector<graph::GradientWanted>& wanted, const graph::DifferentiateOptions& options, B& b,
                       const std::string& words) {
    try {
      graph::differentiate(b.g, b.seeds(), wanted, options);
      FAIL() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), QUERN_INVALID_ARGUMENT);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  B b;
  const ValueId x = b.f32({2, 3}), label = b.i32({2}, {0, 1});
  b.loss(ops::cross_entropy(b.g, x, label).loss);
  using graph::Checkpointing;
  says({{label}}, {}, b, "is no float");
  says({{900}}, {}, b, "value 900");
  says({{b.g.view(x, {3, 2}, {4, 12}, 0)}}, {}, b, "strided view");
  says({{x, b.frozen(QUERN_F32, {2, 3})}}, {}, b, "must be f32 state");
  says({{x, b.state(QUERN_F32, {3, 2})}}, {}, b, "of the same shape");
  says({{x, b.state(QUERN_BF16, {2, 3})}}, {}, b, "must be f32 state");
  const ValueId held = b.state(QUERN_F32, {2, 3});
  says({{held, held}}, {}, b, "shares memory");
  says({{x}}, {Checkpointing::full, {}}, b, "needs segments");
  says({{x}}, {Checkpointing::full, {0, 0}}, b, "must ascend");
  says({{x}}, {Checkpointing::full, {7}}, b, "must ascend and be below 1");
}

}  // namespace
}  // namespace quern::test
