// Hyperparameters of hostile files: each case is one field of a good model made wrong; the good twin passes.
#include "builders.hpp"

#include "support/processor_time.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace quern::test {
namespace {

struct Case {
  std::string name;
  std::function<void(GgufWriter&)> corrupt;
  std::vector<std::string> words;
  std::function<GgufWriter()> twin = tiny_llama;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class MalformedHyperparameters : public testing::TestWithParam<Case> {};

TEST_P(MalformedHyperparameters, IsRefusedByNameAndItsTwinIsRead) {
  GgufWriter twin = GetParam().twin();
  const GgufWriter::Bytes good = twin.bytes();
  const double good_seconds = processor_seconds_of([&] { EXPECT_NO_THROW(Model(good, "twin.gguf")); });
  GetParam().corrupt(twin);
  const GgufWriter::Bytes bytes = twin.bytes();
  const gguf::File file = gguf::File::from_memory(bytes, "hostile.gguf");
  const double start = processor_seconds();
  try {
    models::read_hyperparameters(file);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    const std::string text = error.what();
    EXPECT_NE(text.find("hostile.gguf"), std::string::npos) << text;
    for (const std::string& word : GetParam().words) EXPECT_NE(text.find(word), std::string::npos) << text << "\nlacks: " << word;
  }
  EXPECT_LT(processor_seconds() - start, far_beyond(good_seconds, good.size(), bytes.size()));
}

std::function<void(GgufWriter&)> u32(std::string key, std::uint32_t value) {
  return [=](GgufWriter& w) { w.u32(key, value); };
}
std::function<void(GgufWriter&)> f32(std::string key, float value) {
  return [=](GgufWriter& w) { w.f32(key, value); };
}
std::function<void(GgufWriter&)> text(std::string key, std::string value) {
  return [=](GgufWriter& w) { w.string(key, value); };
}
std::function<void(GgufWriter&)> without(std::string key) {
  return [=](GgufWriter& w) { w.remove(key); };
}
std::function<void(GgufWriter&)> without_tensor(std::string name) {
  return [=](GgufWriter& w) { w.remove_tensor(name); };
}
std::function<void(GgufWriter&)> tensor(std::string name, std::vector<std::uint64_t> dims) {
  return [=](GgufWriter& w) {
    std::uint64_t count = 1;
    for (const auto d : dims) count *= d;
    w.remove_tensor(name);
    w.tensor_f32(name, dims, std::vector<float>(count, 0.5f));
  };
}

GgufWriter with_factors() {
  GgufWriter w = tiny_llama();
  w.tensor_f32("rope_freqs.weight", {1}, {2.0f});
  return w;
}
GgufWriter with_yarn() {
  GgufWriter w = tiny_llama();
  w.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0f);
  w.u32("llama.rope.scaling.original_context_length", 16);
  return w;
}

const float nan = std::numeric_limits<float>::quiet_NaN();

const Case cases[] = {
    {"LayersZero", u32("llama.block_count", 0), {"llama.block_count", "is 0", "1 to 4096"}},
    {"LayersTooMany", u32("llama.block_count", 4097), {"llama.block_count", "is 4097"}},
    {"LayersHuge", u32("llama.block_count", 0xffffffffu), {"llama.block_count", "4294967295"}},
    {"LayersMoreThanTensors", u32("llama.block_count", 3), {"blk.2.attn_norm.weight"}},
    {"LayersFewerThanTensors", u32("llama.block_count", 1), {"blk.1.", "not part of the architecture llama"}},
    {"LayersMissing", without("llama.block_count"), {"llama.block_count"}},
    {"LayersAsText", text("llama.block_count", "2"), {"llama.block_count"}},
    {"HiddenZero", u32("llama.embedding_length", 0), {"llama.embedding_length", "is 0"}},
    {"HiddenHuge", u32("llama.embedding_length", 0x80000000u), {"llama.embedding_length"}},
    {"HiddenNotThatOfTheTensors", u32("llama.embedding_length", 16), {"token_embd.weight", "[10, 8]", "[10, 16]"}},
    {"FfnZero", u32("llama.feed_forward_length", 0), {"llama.feed_forward_length"}},
    {"FfnNotThatOfTheTensors", u32("llama.feed_forward_length", 11), {"blk.0.ffn_gate.weight", "[12, 8]", "[11, 8]"}},
    {"HeadsZero", u32("llama.attention.head_count", 0), {"llama.attention.head_count", "is 0"}},
    {"HeadsHuge", u32("llama.attention.head_count", 0xffffffffu), {"llama.attention.head_count"}},
    {"HeadsDoNotDivideHidden", u32("llama.attention.head_count", 6), {"llama.attention.head_count", "embedding_length 8"}},
    {"KvHeadsZero", u32("llama.attention.head_count_kv", 0), {"llama.attention.head_count_kv", "is 0"}},
    {"KvHeadsDoNotDivideHeads", u32("llama.attention.head_count_kv", 3), {"llama.attention.head_count_kv", "is 3", "4 heads"}},
    {"KvHeadsAboveHeads", u32("llama.attention.head_count_kv", 8), {"llama.attention.head_count_kv", "is 8"}},
    {"HeadSizeOdd", u32("qwen3.attention.key_length", 3), {"qwen3.attention.key_length", "3"}, tiny_qwen3},
    {"HeadSizeZero", u32("qwen3.attention.key_length", 0), {"qwen3.attention.key_length", "is 0"}, tiny_qwen3},
    {"ValueSizeHuge", u32("qwen3.attention.value_length", 0x10001u), {"qwen3.attention.value_length"}, tiny_qwen3},
    {"ValueSizeNotThatOfTheTensors", u32("qwen3.attention.value_length", 4), {"blk.0.attn_v.weight"}, tiny_qwen3},
    {"ContextZero", u32("llama.context_length", 0), {"llama.context_length", "is 0"}},
    {"ContextAbove2To31", u32("llama.context_length", 0x80000001u), {"llama.context_length", "2147483649"}},
    {"ContextOf2To32", [](GgufWriter& w) { w.u64("llama.context_length", 1ull << 32); }, {"llama.context_length", "4294967296"}},
    {"ContextNegative", [](GgufWriter& w) { w.i32("llama.context_length", -1); }, {"llama.context_length"}},
    {"EpsilonZero", f32("llama.attention.layer_norm_rms_epsilon", 0), {"layer_norm_rms_epsilon", "is 0"}},
    {"EpsilonNegative", f32("llama.attention.layer_norm_rms_epsilon", -1e-5f), {"layer_norm_rms_epsilon"}},
    {"EpsilonNotANumber", f32("llama.attention.layer_norm_rms_epsilon", nan), {"layer_norm_rms_epsilon"}},
    {"EpsilonThatF32Loses", [](GgufWriter& w) { w.f64("llama.attention.layer_norm_rms_epsilon", 1e-60); }, {"layer_norm_rms_epsilon"}},
    {"EpsilonMissing", without("llama.attention.layer_norm_rms_epsilon"), {"layer_norm_rms_epsilon"}},
    {"RopeSizeOdd",
     u32("qwen3.rope.dimension_count", 3),
     {"qwen3.rope.dimension_count"},
     [] {
       GgufWriter w = tiny_qwen3();
       w.u32("qwen3.rope.dimension_count", 2);
       return w;
     }},
    {"RopeSizeZero", u32("llama.rope.dimension_count", 0), {"llama.rope.dimension_count"}},
    {"RopeSizeAboveHead", u32("llama.rope.dimension_count", 4), {"llama.rope.dimension_count", "is 4"}},
    {"RopeBaseZero", f32("llama.rope.freq_base", 0), {"llama.rope.freq_base"}},
    {"RopeBaseInfinite", f32("llama.rope.freq_base", INFINITY), {"llama.rope.freq_base"}},
    {"RopeScalingUnknown", text("llama.rope.scaling.type", "spiral"), {"llama.rope.scaling.type", "none, linear, yarn"}},
    {"RopeScalingWithoutFactor", text("llama.rope.scaling.type", "linear"), {"rope.scaling.factor is missing"}},
    {"RopeFactorZero", f32("llama.rope.scaling.factor", 0), {"llama.rope.scaling.factor"}, with_yarn},
    {"YarnContextZero", u32("llama.rope.scaling.original_context_length", 0), {"original_context_length"}, with_yarn},
    {"YarnBetasReversed", f32("llama.rope.scaling.yarn_beta_slow", 40), {"yarn_beta_fast", "40"}, with_yarn},
    {"YarnHalfARamp", f32("llama.rope.scaling.yarn_ext_factor", 0.5f), {"yarn_ext_factor"}, with_yarn},
    {"RopeFactorsZero",
     [](GgufWriter& w) {
       w.remove_tensor("rope_freqs.weight");
       w.tensor_f32("rope_freqs.weight", {1}, {0.0f});
     },
     {"rope_freqs.weight", "index 0"},
     with_factors},
    {"RopeFactorsTooMany", tensor("rope_freqs.weight", {2}), {"rope_freqs.weight", "[2]", "[1]"}, with_factors},
    {"ArchitectureUnknown", text("general.architecture", "grok"), {"general.architecture", "'grok'", "llama, qwen2, qwen3"}},
    {"ArchitectureWithControlCharacters", text("general.architecture", "a\nb"), {"'a\\x0ab'"}},
    {"ArchitectureMissing", without("general.architecture"), {"general.architecture"}},
    {"ArchitectureNotAString", u32("general.architecture", 1), {"general.architecture"}},
    {"Experts", u32("llama.expert_count", 8), {"llama.expert_count", "is 8"}},
    {"VocabularyContradicts", u32("llama.vocab_size", 11), {"llama.vocab_size", "is 11", "10 rows"}},
    {"MoreTokensThanRows",
     [](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", std::vector<std::string>(11, "a")); },
     {"tokenizer.ggml.tokens", "11 tokens", "10 rows"}},
    {"EmbeddingMissing", without_tensor("token_embd.weight"), {"token_embd.weight"}},
    {"EmbeddingOfOneDimension", tensor("token_embd.weight", {80}), {"token_embd.weight"}},
    {"NormMissing", without_tensor("blk.1.ffn_norm.weight"), {"blk.1.ffn_norm.weight"}},
    {"NormOfWrongSize", tensor("blk.1.ffn_norm.weight", {9}), {"blk.1.ffn_norm.weight", "[9]", "[8]"}},
    {"WeightTransposed", tensor("blk.0.ffn_down.weight", {8, 12}), {"blk.0.ffn_down.weight", "[12, 8]", "[8, 12]"}},
    {"WeightOfIntegers",
     [](GgufWriter& w) {
       w.remove_tensor("blk.0.attn_k.weight");
       w.tensor("blk.0.attn_k.weight", {8, 4}, 26, GgufWriter::Bytes(128));
     },
     {"blk.0.attn_k.weight"}},
    {"NormInF16",
     [](GgufWriter& w) {
       w.remove_tensor("output_norm.weight");
       w.tensor("output_norm.weight", {8}, 1, GgufWriter::Bytes(16));
     },
     {"output_norm.weight", "is f16"}},
    {"BiasInOneLayerOnly", tensor("blk.1.attn_q.bias", {8}), {"blk.1.attn_q.bias", "not part"}},
    {"BiasOfTheFeedForward", tensor("blk.0.ffn_up.bias", {12}), {"blk.0.ffn_up.bias", "not part"}},
    {"HeadNormMissing", without_tensor("blk.0.attn_q_norm.weight"), {"blk.0.attn_q_norm.weight"}, tiny_qwen3},
    {"Qwen2WithoutBiases",
     [](GgufWriter& w) {
       for (auto& key : w.keys())
         if (key.name.starts_with("llama.")) key.name = "qwen2." + key.name.substr(6);
       w.string("general.architecture", "qwen2");
     },
     {"blk.0.attn_q.bias"}},
};

INSTANTIATE_TEST_SUITE_P(Class12, MalformedHyperparameters, testing::ValuesIn(cases), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace quern::test
