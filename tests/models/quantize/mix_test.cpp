// The mixes of llama-quantize: which type each tensor gets.
#include "quern/models/mix.hpp"

#include "support/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace quern::test {
namespace {

using quantize::MixOptions;

struct Shape {
  std::uint32_t layers = 32, experts = 0;
  std::uint64_t hidden = 256;
  bool tied = false;
  std::string architecture = "llama";
};

/// A file with the names of a model; its tensors have one row.
gguf::File model(const Shape& shape, std::vector<std::byte>& bytes) {
  GgufWriter writer;
  writer.string("general.architecture", shape.architecture);
  writer.u32(shape.architecture + ".block_count", shape.layers);
  if (shape.experts > 0) writer.u32(shape.architecture + ".expert_count", shape.experts);
  const auto matrix = [&](const std::string& name) { writer.tensor_f32(name, {shape.hidden, 1}, std::vector<float>(shape.hidden)); };
  const auto vector = [&](const std::string& name) { writer.tensor_f32(name, {4}, std::vector<float>(4)); };
  matrix("token_embd.weight");
  vector("output_norm.weight");
  if (!shape.tied) matrix("output.weight");
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "ffn_gate_inp", "some_norm"})
      matrix(blk + part + ".weight");
    vector(blk + "attn_norm.weight");
    matrix(blk + "attn_q.bias");
  }
  bytes = writer.bytes();
  return gguf::File::from_memory(bytes, "m");
}

std::map<std::string, quern_dtype> types(const Shape& shape, const std::string& mix, const MixOptions& options = {}) {
  std::vector<std::byte> bytes;
  const gguf::File file = model(shape, bytes);
  std::map<std::string, quern_dtype> found;
  const auto choices = choose_types(file, quantize::mix_of(mix), options);
  for (std::size_t i = 0; i < choices.size(); ++i) found[file.tensors()[i].name] = choices[i].dtype;
  return found;
}

/// The layers in which a part has a type.
std::set<int> layers_with(const std::map<std::string, quern_dtype>& found, const std::string& part, quern_dtype dtype) {
  std::set<int> layers;
  for (int layer = 0; layer < 128; ++layer) {
    const auto at = found.find("blk." + std::to_string(layer) + "." + part + ".weight");
    if (at != found.end() && at->second == dtype) layers.insert(layer);
  }
  return layers;
}

// Of 32 layers: 0 to 3, 28 to 31, and each third between.
const std::set<int> more_bits = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};

TEST(Mix, Q4_K_M) {
  const auto found = types({}, "q4_k_m");
  EXPECT_EQ(layers_with(found, "attn_v", QUERN_Q6_K), more_bits);
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q6_K), more_bits);
  EXPECT_EQ(layers_with(found, "attn_v", QUERN_Q4_K).size(), 16u);
  for (const char* part : {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"})
    EXPECT_EQ(layers_with(found, part, QUERN_Q4_K).size(), 32u) << part;
  EXPECT_EQ(found.at("output.weight"), QUERN_Q6_K);
  EXPECT_EQ(found.at("token_embd.weight"), QUERN_Q4_K);
}

TEST(Mix, TheOthers) {
  const std::set<int> four = {0, 1, 2, 3};
  auto found = types({}, "Q4_K_S");
  EXPECT_EQ(layers_with(found, "attn_v", QUERN_Q5_K), four);
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q5_K), four);
  found = types({}, "Q5_K");
  EXPECT_EQ(layers_with(found, "attn_v", QUERN_Q6_K), more_bits);
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q6_K), more_bits);
  EXPECT_EQ(found.at("blk.0.attn_q.weight"), QUERN_Q5_K);
  found = types({}, "Q5_K_S");
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q5_K).size(), 32u);
  found = types({}, "Q8_0");
  EXPECT_EQ(found.at("output.weight"), QUERN_Q8_0);
  found = types({}, "Q4_0");
  EXPECT_EQ(found.at("output.weight"), QUERN_Q6_K);
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q4_0).size(), 32u);
  found = types({}, "Q4_0", {.importance = true});
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q4_1), four);
  found = types({}, "Q5_0", {.importance = true});
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q5_1), four);
  found = types({}, "F16");
  EXPECT_EQ(found.at("output.weight"), QUERN_F16);
  EXPECT_EQ(found.at("token_embd.weight"), QUERN_F16);
}

TEST(Mix, SomeTensorsStay) {
  for (const char* mix : {"Q4_K_M", "F16"}) {
    const auto found = types({}, mix);
    for (const char* part :
         {"output_norm.weight", "blk.5.attn_norm.weight", "blk.5.ffn_gate_inp.weight", "blk.5.some_norm.weight", "blk.5.attn_q.bias"})
      EXPECT_EQ(found.at(part), QUERN_F32) << part;
  }
}

TEST(Mix, ATiedTableIsTheHead) {
  EXPECT_EQ(types({.tied = true}, "Q4_K_M").at("token_embd.weight"), QUERN_Q6_K);
  EXPECT_EQ(types({.tied = true}, "Q4_K_M", {.output = QUERN_Q5_K}).at("token_embd.weight"), QUERN_Q5_K);
}

TEST(Mix, RowsThatAreNoWholeBlocksFallBack) {
  auto found = types({.hidden = 576, .tied = true}, "Q4_K_M");
  EXPECT_EQ(found.at("blk.0.attn_q.weight"), QUERN_Q5_0);
  EXPECT_EQ(found.at("blk.0.attn_v.weight"), QUERN_Q8_0);
  EXPECT_EQ(found.at("token_embd.weight"), QUERN_Q8_0);
  found = types({.hidden = 576}, "Q5_K_M");
  EXPECT_EQ(found.at("blk.0.attn_q.weight"), QUERN_Q5_1);
  EXPECT_EQ(types({.hidden = 576}, "Q4_0").at("output.weight"), QUERN_Q8_0);  // by way of Q6_K
  EXPECT_EQ(types({.hidden = 72}, "Q4_0").at("blk.0.attn_q.weight"), QUERN_F16);
  EXPECT_EQ(types({.hidden = 72}, "Q6_K").at("blk.0.attn_q.weight"), QUERN_F16);
}

TEST(Mix, EightExpertsAndEightyLayers) {
  auto found = types({.experts = 8}, "Q4_K_M");
  EXPECT_EQ(layers_with(found, "attn_v", QUERN_Q8_0).size(), 32u);
  EXPECT_EQ(layers_with(found, "attn_k", QUERN_Q8_0).size(), 32u);
  EXPECT_EQ(layers_with(found, "attn_output", QUERN_Q5_K).size(), 32u);
  found = types({.layers = 80}, "Q4_K_M");
  EXPECT_EQ(layers_with(found, "attn_v", QUERN_Q4_K).size(), 0u);
  EXPECT_EQ(types({.layers = 80, .architecture = "qwen3"}, "Q4_K_M").at("blk.10.attn_v.weight"), QUERN_Q4_K);
}

TEST(Mix, WhatTheUserSaysCountsMore) {
  MixOptions options;
  options.rules.push_back(quantize::tensor_rule("blk\\.[0-3]\\.ffn_down=q8_0"));
  options.rules.push_back(quantize::tensor_rule("ffn_(down|up)=Q5_K"));
  options.embedding = QUERN_Q5_1;
  options.output = QUERN_F16;
  auto found = types({}, "Q4_K_M", options);
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q8_0), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q5_K).size(), 28u);
  EXPECT_EQ(layers_with(found, "ffn_up", QUERN_Q5_K).size(), 32u);
  EXPECT_EQ(found.at("token_embd.weight"), QUERN_Q5_1);
  EXPECT_EQ(found.at("output.weight"), QUERN_F16);
  found = types({}, "Q4_K_M", {.pure = true});
  EXPECT_EQ(layers_with(found, "ffn_down", QUERN_Q4_K).size(), 32u);
  EXPECT_EQ(found.at("output.weight"), QUERN_Q4_K);
}

TEST(Mix, NamesThatAreNone) {
  const auto code = [](const auto& action) {
    try {
      action();
    } catch (const Error& error) { return error.code(); }
    return quern_status{QUERN_OK};
  };
  EXPECT_EQ(code([] { quantize::mix_of("iq2_xs"); }), QUERN_UNSUPPORTED);
  EXPECT_EQ(code([] { quantize::mix_of("Q4_K_XL"); }), QUERN_INVALID_ARGUMENT);
  for (const char* text : {"ffn_down", "=q6_k", "ffn=q2_k", "ffn=i32", "(=q6_k"})
    EXPECT_EQ(code([&] { quantize::tensor_rule(text); }), QUERN_INVALID_ARGUMENT) << text;
}

}  // namespace
}  // namespace quern::test
