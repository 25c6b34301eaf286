// GGUF adapters with one thing wrong, each beside the twin that is read.
#include "samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>

namespace quern::test {
namespace {

struct Malformed {
  std::string name;
  std::function<void(GgufWriter&)> change;
  std::string words;
  quern_status code = QUERN_BAD_MODEL;
};
void PrintTo(const Malformed& one, std::ostream* out) { *out << one.name; }

class PeftGgufMalformed : public ::testing::TestWithParam<Malformed> {};

void read(GgufWriter writer) {
  const auto bytes = writer.bytes();
  (void)peft::read_gguf(gguf::File::from_memory(bytes, "m.gguf"), tiny_llama());
}

TEST_P(PeftGgufMalformed, IsRefusedWithTheFileAndTheReason) {
  ASSERT_NO_THROW(read(small_gguf()));
  GgufWriter writer = small_gguf();
  GetParam().change(writer);
  const std::string text = refusal(GetParam().code, [&] { read(writer); });
  EXPECT_TRUE(text.starts_with("m.gguf: ")) << text;
  EXPECT_NE(text.find(GetParam().words), std::string::npos) << text;
}

const std::string q_a = "blk.0.attn_q.weight.lora_a", q_b = "blk.0.attn_q.weight.lora_b";

std::function<void(GgufWriter&)> renamed(const std::string& name) {
  return [name](GgufWriter& w) { w.tensor(q_a).name = name; };
}

std::function<void(GgufWriter&)> sized(const std::string& tensor, std::vector<std::uint64_t> dims) {
  return [tensor, dims](GgufWriter& w) {
    std::uint64_t count = 1;
    for (const std::uint64_t dim : dims) count *= dim;
    w.tensor(tensor).dims = dims;
    w.tensor(tensor).data.resize(count * 4);
  };
}

const Malformed cases[] = {
    {"NoType", [](auto& w) { w.remove("general.type"); }, "is missing, so this is a model and not an adapter"},
    {"AModel", [](auto& w) { w.string("general.type", "model"); }, "is 'model', so this is not an adapter"},
    {"TypeOfANumber", [](auto& w) { w.u32("general.type", 1); }, "key 'general.type'"},
    {"NoKind", [](auto& w) { w.remove("adapter.type"); }, "key 'adapter.type' is missing"},
    {"ControlVector", [](auto& w) { w.string("adapter.type", "control"); }, "is 'control'", QUERN_UNSUPPORTED},
    {"Alora", [](auto& w) { w.u32s("adapter.alora.invocation_tokens", {1}); }, "begin at a token", QUERN_UNSUPPORTED},
    {"OtherArchitecture", [](auto& w) { w.string("general.architecture", "qwen2"); }, "is 'qwen2', but the base is 'llama'"},
    {"NoArchitecture", [](auto& w) { w.remove("general.architecture"); }, "key 'general.architecture' is missing"},
    {"NoAlpha", [](auto& w) { w.remove("adapter.lora.alpha"); }, "key 'adapter.lora.alpha' is missing"},
    {"AlphaOfAnInteger", [](auto& w) { w.u32("adapter.lora.alpha", 8); }, "key 'adapter.lora.alpha'"},
    {"AlphaOfNan", [](auto& w) { w.f32("adapter.lora.alpha", std::numeric_limits<float>::quiet_NaN()); }, "key 'adapter.lora.alpha'"},
    {"NoTensors", [](auto& w) { w.tensors().clear(); }, "has no tensor of an adapter"},
    {"MissingB", [](auto& w) { w.remove_tensor(q_b); }, "not a whole pair: " + q_a},
    {"MissingA", [](auto& w) { w.remove_tensor(q_a); }, "not a whole pair: " + q_b},
    {"Head", renamed("output.weight.lora_a"), "without a matrix: output.weight.lora_a; not a whole pair: " + q_b},
    {"Embedding", renamed("token_embd.weight.lora_a"), "without a matrix: token_embd.weight.lora_a"},
    {"RopeFactors", renamed("rope_freqs.weight.lora_a"), "without a matrix: rope_freqs.weight.lora_a"},
    {"Bias", renamed("blk.0.attn_q.bias.lora_a"), "without a matrix: blk.0.attn_q.bias.lora_a"},
    {"NoLayer", renamed("blk.attn_q.weight.lora_a"), "without a matrix: blk.attn_q.weight.lora_a"},
    {"LayerWithZeros", renamed("blk.00.attn_q.weight.lora_a"), "without a matrix: blk.00.attn_q"},
    {"LayerBeyond32Bits", renamed("blk.4294967296.attn_q.weight.lora_a"), "without a matrix: blk.4294967296"},
    {"RanksDiffer", sized(q_b, {3, 64}), "has a rank of 3, but its other half has 2"},
    {"OneDimension", sized(q_a, {128}), "has 1 dimensions"},
    {"ThreeDimensions", sized(q_a, {64, 2, 1}), "has 3 dimensions"},
    {"Integers", [](auto& w) { w.tensor(q_a).type = 26; }, "is of type I32", QUERN_UNSUPPORTED},
    {"FourBits",
     [](auto& w) {
       w.tensor(q_a).type = 2;
       w.tensor(q_a).data.resize(4 * 18);
     },
     "is of type Q4_0", QUERN_UNSUPPORTED},
    {"NotFinite",
     [](auto& w) {
       const auto nan = bytes_of(std::numeric_limits<float>::quiet_NaN());
       std::copy(nan.begin(), nan.end(), w.tensor(q_b).data.begin());
     },
     "B of layers.0.self_attn.q_proj holds nan"},
};
INSTANTIATE_TEST_SUITE_P(Each, PeftGgufMalformed, ::testing::ValuesIn(cases), [](const auto& one) { return one.param.name; });

TEST(PeftGguf, RowsThatAreNoHeadsAreRefused) {
  GgufWriter writer = small_gguf();
  sized(q_b, {2, 66})(writer);
  const std::string text = refusal(QUERN_BAD_MODEL, [&] { read(writer); });
  EXPECT_NE(text.find("layers.0.self_attn.q_proj has 66 rows, which are not 4 heads"), std::string::npos) << text;
}

}  // namespace
}  // namespace quern::test
