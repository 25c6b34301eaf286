// The step graph: what it binds, what runs in it, and what it refuses.
#include "builders.hpp"

#include "quern/graph/op_info.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace quern::test {
namespace {

models::StepOptions sampling_options() {
  models::StepOptions options = test_options(2, 32);
  options.sampling = true;
  options.history = 16;
  options.max_biases = 4;
  return options;
}

std::map<std::string, int> ops_of(const graph::Graph& graph) {
  std::map<std::string, int> counts;
  for (const graph::Node& node : graph.nodes()) ++counts[graph::op_name(node.op)];
  return counts;
}

TEST(StepGraph, ReadsEveryTensorOfTheFileOnce) {
  const Model model(tiny_qwen3().bytes());
  const models::StepGraph step = models::build_step(model.shape, model.file, test_options(1, 32));
  std::set<std::string> bound;
  for (const auto& weight : step.weights) {
    EXPECT_TRUE(bound.insert(weight.tensor).second) << weight.tensor;
    EXPECT_EQ(step.graph.value(weight.value).kind, QUERN_VALUE_CONSTANT);
    EXPECT_EQ(graph::byte_size(step.graph.value(weight.value).dtype, step.graph.value(weight.value).shape),
              model.file.require_tensor(weight.tensor).bytes);
  }
  EXPECT_EQ(bound.size(), model.file.tensors().size());
}

TEST(StepGraph, ATiedHeadReadsTheEmbedding) {
  GgufWriter writer = tiny_llama();
  writer.remove_tensor("output.weight");
  const Model model(writer.bytes());
  EXPECT_TRUE(model.shape.tied_head);
  const models::StepGraph step = models::build_step(model.shape, model.file, test_options(1, 32));
  const graph::Node& head = step.graph.nodes().back();
  EXPECT_EQ(head.op, QUERN_OP_MATMUL);
  EXPECT_EQ(head.inputs[1], step.graph.nodes().front().inputs[0]);
}

TEST(StepGraph, OnlyWantedRowsGoThroughTheHead) {
  const Model model(tiny_llama().bytes());
  const models::StepGraph step = models::build_step(model.shape, model.file, test_options(1, 32));
  const graph::Shape& logits = step.graph.value(step.logits).shape;
  EXPECT_EQ(logits[0], graph::Dim(64, step.outputs));
  EXPECT_EQ(logits[1], graph::Dim(10));
  EXPECT_EQ(step.graph.value(step.logits).kind, QUERN_VALUE_OUTPUT);
}

TEST(StepGraph, ALayerIsTheSameFineGrainedOpsEachTime) {
  const Model model(tiny_llama().bytes());
  const auto ops = ops_of(models::build_step(model.shape, model.file, sampling_options()).graph);
  const std::map<std::string, int> wanted = {{"add", 4},      {"attention", 2},  {"get_rows", 2}, {"glu", 2},
                                             {"kv_write", 4}, {"logit_bias", 1}, {"matmul", 15},  {"penalize", 1},
                                             {"rms_norm", 5}, {"rope", 4},       {"sample", 1}};
  EXPECT_EQ(ops, wanted);
}

TEST(StepGraph, EarlyOutputsLeaveTheLastLayerBehindItsAttention) {
  const Model model(tiny_llama().bytes());
  models::StepOptions options = sampling_options();
  const auto late = ops_of(models::build_step(model.shape, model.file, options).graph);
  options.early_outputs = true;
  const models::StepGraph step = models::build_step(model.shape, model.file, options);
  auto wanted = late;
  ++wanted["get_rows"];  // heads and residual, not the rows behind the layer
  EXPECT_EQ(ops_of(step.graph), wanted);
  std::map<std::string, graph::SymbolId> rows;
  for (const graph::Node& node : step.graph.nodes()) rows[node.name] = step.graph.value(node.outputs[0]).shape[0].symbol;
  for (const char* part : {"attention", "attn_output", "ffn_gate", "ffn_down"})
    EXPECT_EQ(rows.at(concat("blk.0.", part)), step.tokens) << part;
  EXPECT_EQ(rows.at("blk.1.attention"), step.tokens);
  for (const char* part : {"attn_output", "ffn_gate", "ffn_down"}) EXPECT_EQ(rows.at(concat("blk.1.", part)), step.outputs) << part;
}

TEST(StepGraph, NodesCarryTheConversionsThatTheSessionAllows) {
  const Model model(tiny_llama().bytes());
  models::StepOptions options = test_options(1, 32);
  options.conversions = QUERN_CONVERT_INT8;
  const models::StepGraph step = models::build_step(model.shape, model.file, options);
  for (const graph::Node& node : step.graph.nodes())
    EXPECT_EQ(node.conversions, static_cast<std::uint32_t>(QUERN_CONVERT_INT8)) << node.name;
}

TEST(StepGraph, EveryCacheIsStateOfTheAskedType) {
  const Model model(tiny_llama().bytes());
  models::StepOptions options = test_options(2, 32);
  options.kv_dtype = QUERN_BF16;
  const models::StepGraph step = models::build_step(model.shape, model.file, options);
  ASSERT_EQ(step.k_cache.size(), 2u);
  ASSERT_EQ(step.v_cache.size(), 2u);
  for (const graph::ValueId cache : {step.k_cache[0], step.v_cache[1]}) {
    EXPECT_EQ(step.graph.value(cache).kind, QUERN_VALUE_STATE);
    EXPECT_EQ(step.graph.describe(cache), "bf16 [19, 2, 4, 2]");
  }
}

TEST(StepGraph, RefusesACacheFormatWhoseBlocksDoNotFitAHead) {
  const Model model(tiny_llama().bytes());
  models::StepOptions options = test_options(1, 32);
  options.kv_dtype = QUERN_Q8_0;
  try {
    models::build_step(model.shape, model.file, options);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("blk.0.k_cache"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("multiple of 32"), std::string::npos) << error.what();
  }
}

TEST(StepGraph, RefusesOptionsOfZero) {
  const Model model(tiny_llama().bytes());
  models::StepOptions options = test_options(1, 32);
  options.pages = 0;
  EXPECT_THROW(models::build_step(model.shape, model.file, options), Error);
  EXPECT_THROW(models::build_rope(model.shape, 0), Error);
}

TEST(StepGraph, SamplingDrawsFromTheLogitsItReports) {
  const Model model(tiny_llama().bytes());
  ReferenceModel reference(model.shape, model.file, sampling_options());
  const models::StepGraph& step = reference.graph();
  ReferenceInterpreter& run = reference.interpreter();
  run.extent(step.tokens, 3);
  run.extent(step.outputs, 2);
  // Row 0: greedy. Row 1: token 4 is made certain by a bias, and its history would forbid it by a penalty of 2.
  run.set(step.sampler_params, std::vector<double>{0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 2, 0, 8});
  run.set(step.sampler_seed, std::vector<double>{1, 2, 3, 4});
  run.set(step.sampler_step, std::vector<std::int32_t>{0, 7});
  run.set(step.history, std::vector<std::int32_t>(32, 4));
  run.set(step.history_len, std::vector<std::int32_t>{0, 3});
  run.set(step.bias_token, std::vector<std::int32_t>{-1, -1, -1, -1, 4, -1, -1, -1});
  run.set(step.bias_value, std::vector<double>{0, 0, 0, 0, 1000, 0, 0, 0});
  const auto logits = reference.step({{1, 0, 0}, {5, 1, 0}, {7, 0, 1}}, {1, 2});
  const std::vector<double> sampled = run.get(step.sampled);
  const auto best = std::max_element(logits[0].begin(), logits[0].end()) - logits[0].begin();
  EXPECT_EQ(sampled[0], static_cast<double>(best));
  EXPECT_EQ(sampled[1], 4);
  double sum = 0;
  for (const double x : logits[0]) sum += std::exp(x);
  EXPECT_NEAR(run.get(step.logprob)[0], logits[0][static_cast<std::size_t>(best)] - std::log(sum), 1e-12);
  EXPECT_NEAR(run.get(step.logprob)[1], 0, 1e-12);
}

}  // namespace
}  // namespace quern::test
