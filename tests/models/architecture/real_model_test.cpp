// The real SmolLM2-135M-Instruct: its metadata, and a step graph over its quantised tensors.
#include "builders.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace quern::test {
namespace {

TEST(RealModel, IsReadAsTheSmolLm2ThatItIs) {
  const char* path = std::getenv("QUERN_TEST_MODEL");
  if (!path) GTEST_SKIP() << "QUERN_TEST_MODEL names no file";
  const gguf::File file = gguf::File::open(path);
  const models::Hyperparameters model = models::read_hyperparameters(file);
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(model.layers, 30u);
  EXPECT_EQ(model.hidden, 576u);
  EXPECT_EQ(model.ffn, 1536u);
  EXPECT_EQ(model.heads, 9u);
  EXPECT_EQ(model.kv_heads, 3u);
  EXPECT_EQ(model.head_size, 64u);
  EXPECT_EQ(model.vocabulary, 49152u);
  EXPECT_EQ(model.context, 8192u);
  EXPECT_EQ(model.rope_base, 100000.0);
  EXPECT_FLOAT_EQ(model.norm_epsilon, 1e-5f);
  EXPECT_TRUE(model.tied_head);
  const models::StepGraph step = models::build_step(model, file, test_options(2, 128));
  EXPECT_EQ(step.graph.nodes().size(), 1 + 30 * 17 + 3u);
  EXPECT_EQ(step.weights.size(), file.tensors().size());
  EXPECT_EQ(step.graph.value(step.graph.nodes()[0].inputs[0]).dtype, QUERN_Q8_0);
}

}  // namespace
}  // namespace quern::test
