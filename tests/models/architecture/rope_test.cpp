// Rotary settings: from the keys of a file to the table.
#include "builders.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::test {
namespace {

std::vector<double> table_of(const Model& model, std::uint32_t positions) {
  models::RopeGraph rope = models::build_rope(model.shape, positions);
  ReferenceInterpreter run(rope.graph);
  if (rope.factors != graph::no_value) run.set(rope.factors, elements(model.file, "rope_freqs.weight"));
  run.run();
  return run.get(rope.table);
}

TEST(Rope, PositionZeroIsNotTurnedAndPositionOneTurnsTheFirstPairByOne) {
  const Model model(tiny_llama().bytes());
  const std::vector<double> table = table_of(model, 2);
  const double wanted[] = {1, 0, std::cos(1.0), std::sin(1.0)};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(table[i], wanted[i], 1e-15);
}

TEST(Rope, AFactorWithoutATypeIsLinear) {
  GgufWriter writer = tiny_llama();
  writer.f32("llama.rope.scaling.factor", 4.0f);
  const Model model(writer.bytes());
  EXPECT_EQ(model.shape.rope_scaling, 1u);
  EXPECT_NEAR(table_of(model, 5)[4 * 2 + 1], std::sin(1.0), 1e-15);  // position 4 turns as 1 did
}

TEST(Rope, TypeNoneIgnoresAFactor) {
  GgufWriter writer = tiny_llama();
  writer.string("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4.0f);
  EXPECT_EQ(Model(writer.bytes()).shape.rope_scaling, 0u);
}

TEST(Rope, TheFactorsOfTheFileDivideTheFrequencies) {
  GgufWriter writer = tiny_llama();
  writer.tensor_f32("rope_freqs.weight", {1}, {8.0f});
  const Model model(writer.bytes());
  EXPECT_TRUE(model.shape.rope_factors);
  EXPECT_NEAR(table_of(model, 9)[8 * 2 + 1], std::sin(1.0), 1e-15);
}

TEST(Rope, YarnScalesCosAndSinByItsOwnFactorUnlessTheFileStatesOne) {
  GgufWriter writer = tiny_llama();
  writer.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0f);
  EXPECT_NEAR(Model(writer.bytes()).shape.rope_mscale, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(Model(writer.bytes()).shape.rope_original_context,
            64u);  // the model's, where the file states none
  writer.f32("llama.rope.scaling.yarn_attn_factor", 1.25f);
  EXPECT_EQ(Model(writer.bytes()).shape.rope_mscale, 1.25);
  writer.f32("llama.rope.scaling.attn_factor", 2.0f);
  EXPECT_EQ(Model(writer.bytes()).shape.rope_mscale, 2.5);
}

TEST(Rope, TheArchitectureDecidesThePairing) {
  EXPECT_EQ(Model(tiny_llama().bytes()).shape.pairing, models::RopePairing::interleaved);
  EXPECT_EQ(Model(tiny_qwen3().bytes()).shape.pairing, models::RopePairing::half_split);
}

}  // namespace
}  // namespace quern::test
