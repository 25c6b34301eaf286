// Folders of which a part would not apply, and tensors that contradict the configuration or each other.
#include "samples.hpp"

#include "quern/models/safetensors.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace quern::test {
namespace {

const std::string q0 = "base_model.model.model.layers.0.self_attn.q_proj.";

std::string refused_folder(const std::vector<std::byte>& tensors) {
  return refusal(QUERN_BAD_MODEL, [&] { peft::read_memory(small_config(), tensors, "a"); });
}

/// The small adapter with one name of a tensor changed; an empty name takes the tensor out.
std::string refused_name(const std::string& from, const std::string& to) {
  return refused_folder(small_tensors([&](const std::string& name) { return name == from ? to : name; }));
}

/// A file with A and B of q of layer 0 alone.
std::vector<std::byte> pair_of(std::vector<std::uint64_t> a, std::vector<std::uint64_t> b, float number = 1) {
  const auto count = [](const std::vector<std::uint64_t>& shape) {
    std::uint64_t product = 1;
    for (const std::uint64_t size : shape) product *= size;
    return static_cast<std::size_t>(product);
  };
  const std::vector<float> numbers_a(count(a), number), numbers_b(count(b), number);
  const safetensors::NewTensor tensors[] = {
      {q0 + "lora_A.weight", safetensors::Dtype::f32, a, std::as_bytes(std::span(numbers_a))},
      {q0 + "lora_B.weight", safetensors::Dtype::f32, b, std::as_bytes(std::span(numbers_b))},
  };
  const ScratchFolder folder;
  safetensors::write(folder.path("m"), tensors);
  return read_bytes(folder.path("m"));
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  EXPECT_TRUE(text.starts_with("a/adapter_model.safetensors: ")) << text;
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(PeftMalformed, ARenamedPrefixIsNamed) {
  const std::string text = refused_folder(small_tensors([](const std::string& name) { return "transformer." + name; }));
  expect_words(text, {"without a matrix: transformer.base_model.model.model.layers.0.mlp.down_proj.lora_A.weight", "and 4 more",
                      "not a whole pair: none"});
}

TEST(PeftMalformed, BothListsAreNamed) {
  const std::string text = refused_name(q0 + "lora_B.weight", "base_model.model.lm_head.lora_B.weight");
  expect_words(text, {"without a matrix: base_model.model.lm_head.lora_B.weight", "not a whole pair: " + q0 + "lora_A.weight"});
}

TEST(PeftMalformed, AMissingHalfIsNamed) {
  expect_words(refused_name(q0 + "lora_B.weight", ""), {"without a matrix: none", "not a whole pair: " + q0 + "lora_A.weight"});
  expect_words(refused_name(q0 + "lora_A.weight", ""), {"without a matrix: none", "not a whole pair: " + q0 + "lora_B.weight"});
}

TEST(PeftMalformed, NamesThatMeanNoMatrixAreNamed) {
  for (const std::string name :
       {"lora_A", "layers.0.self_attn.q_proj.lora_A.weight.x", "layers.00.self_attn.q_proj.lora_A.weight",
        "layers.-1.self_attn.q_proj.lora_A.weight", "layers.+1.self_attn.q_proj.lora_A.weight",
        "layers.4294967296.self_attn.q_proj.lora_A.weight", "layers..self_attn.q_proj.lora_A.weight",
        "layers.0.self_attn.q_proj.lora_A..weight", "layers.0.self_attn.q_proj.lora_A.a.b.weight",
        "layers.0.self_attn.q_proj.lora_Adefault.weight", "layers.0.self_attn.q_proj.lora_C.weight", "layers.0.mlp.q_proj.lora_A.weight",
        "layers.0.self_attn.qkv_proj.lora_A.weight", "layers.0.q_proj.lora_A.weight", "model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.base_model.model.base_model.model.layers.0.self_attn.q_proj.lora_A.weight", "model.embed_tokens.lora_embedding_A",
        "layers.0.self_attn.q_proj.lora_magnitude_vector"})
    expect_words(refused_name(q0 + "lora_A.weight", name), {"without a matrix: " + name});
}

TEST(PeftMalformed, TwoTensorsOfOneMatrixAreNamed) {
  expect_words(refused_name("base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight", q0 + "lora_A.default.weight"),
               {"is the same half of the same matrix as"});
}

TEST(PeftMalformed, SizesHaveToAgree) {
  EXPECT_EQ(peft::read_memory(small_config(), pair_of({2, 64}, {64, 2}), "a").matrices.size(), 1u);
  expect_words(refused_folder(pair_of({2, 64}, {64, 3})), {q0 + "lora_B.weight", "a rank of 3, but its other half has 2"});
  expect_words(refused_folder(pair_of({3, 64}, {64, 3})), {"layers.0.self_attn.q_proj has a rank of 3, but the configuration has 2"});
  expect_words(refused_folder(pair_of({2, 64, 1}, {64, 2})), {"has 3 dimensions"});
  expect_words(refused_folder(pair_of({128}, {64, 2})), {"has 1 dimensions"});
  expect_words(refused_folder(pair_of({2, 0}, {64, 2})), {"is 2 times 0, which is no matrix"});
  expect_words(refused_folder(pair_of({2, 64}, {0, 2})), {"is 0 times 2, which is no matrix"});
}

TEST(PeftMalformed, NumbersThatAreNotFiniteAreRefused) {
  expect_words(refused_folder(pair_of({2, 64}, {64, 2}, std::numeric_limits<float>::quiet_NaN())),
               {"A of layers.0.self_attn.q_proj holds nan"});
  expect_words(refused_folder(pair_of({2, 64}, {64, 2}, -std::numeric_limits<float>::infinity())), {"holds -inf"});
}

TEST(PeftMalformed, AFileWithoutTensorsIsRefused) {
  const ScratchFolder folder;
  safetensors::write(folder.path("m"), {});
  expect_words(refused_folder(read_bytes(folder.path("m"))), {"has no tensor of an adapter"});
}

TEST(PeftMalformed, AMatrixThatPeftWouldNotLoadIsNamed) {
  std::string config = small_config();
  const std::string name = "\"down_proj\"";
  config.replace(config.find(name), name.size(), "\"k_proj\"");
  const std::string text = refusal(QUERN_BAD_MODEL, [&] { peft::read_memory(config, small_tensors(), "a"); });
  expect_words(text, {"layers.0.mlp.down_proj is in the file, but not among target_modules"});
}

TEST(PeftMalformed, TensorsOfIntegersAreRefused) {
  const std::vector<std::byte> numbers(2 * 64 * 4);
  const safetensors::NewTensor tensors[] = {{q0 + "lora_A.weight", safetensors::Dtype::i32, {2, 64}, numbers},
                                            {q0 + "lora_B.weight", safetensors::Dtype::i32, {64, 2}, numbers}};
  const ScratchFolder folder;
  safetensors::write(folder.path("m"), tensors);
  const auto bytes = read_bytes(folder.path("m"));
  const std::string text = refusal(QUERN_UNSUPPORTED, [&] { peft::read_memory(small_config(), bytes, "a"); });
  EXPECT_NE(text.find("is of type I32"), std::string::npos) << text;
}

TEST(PeftMalformed, DoraIsRefusedByItsKey) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path("dora"));
  std::filesystem::copy(data_path("tiny-llama-lora_dora/adapter_config.json"), folder.path("dora"));
  const std::string text = refusal(QUERN_UNSUPPORTED, [&] { peft::read_folder(folder.path("dora")); });
  EXPECT_NE(text.find("key 'use_dora'"), std::string::npos) << text;
}

}  // namespace
}  // namespace quern::test
