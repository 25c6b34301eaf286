// An adapter applies in whole or is refused.
#include "samples.hpp"

#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace quern::test {
namespace {

using peft::Adapter;
using peft::BaseShape;

std::string misfit(const Adapter& adapter, const BaseShape& base) {
  return refusal(QUERN_BAD_MODEL, [&] { peft::check_fits(adapter, base); });
}

TEST(PeftFits, TheAdapterOfABaseFitsIt) {
  EXPECT_NO_THROW(peft::check_fits(peft::read_folder(data_path("tiny-llama-lora")), tiny_llama()));
  EXPECT_NO_THROW(peft::check_fits(peft::read_folder(data_path("tiny-qwen3-lora")), tiny_qwen3()));
}

TEST(PeftFits, ALayerThatTheBaseLacksIsNamed) {
  BaseShape base = tiny_llama();
  base.layers = 1;
  const std::string text = misfit(small_adapter(), base);
  EXPECT_NE(text.find("without a matrix: layers.1.self_attn.q_proj (the base has 1 layers), layers.1.mlp.down_proj"), std::string::npos)
      << text;
  EXPECT_NE(text.find("not a whole pair: none"), std::string::npos) << text;
}

TEST(PeftFits, EachSizeOfTheBaseCounts) {
  const Adapter adapter = peft::read_folder(data_path("tiny-llama-lora"));
  const auto text = [&](const std::function<void(BaseShape&)>& change) {
    BaseShape base = tiny_llama();
    change(base);
    return misfit(adapter, base);
  };
  const auto names = [](const std::string& found, const std::string& module) {
    return found.find("layers.0." + module) != std::string::npos;
  };
  EXPECT_TRUE(names(text([](BaseShape& b) { b.heads = 8; }), "self_attn.q_proj (64 to 64, in the base 64 to 128)"));
  EXPECT_TRUE(names(text([](BaseShape& b) { b.kv_heads = 4; }), "self_attn.k_proj (64 to 32, in the base 64 to 64)"));
  EXPECT_TRUE(names(text([](BaseShape& b) { b.width = 128; }), "self_attn.q_proj"));
  EXPECT_TRUE(names(text([](BaseShape& b) { b.ffn = 161; }), "mlp.down_proj (160 to 64, in the base 161 to 64)"));
  EXPECT_TRUE(names(text([](BaseShape& b) { b.value_size = 8; }), "self_attn.v_proj (64 to 32, in the base 64 to 16)"));
  EXPECT_TRUE(names(text([](BaseShape& b) { b.value_size = 8; }), "self_attn.o_proj (64 to 64, in the base 32 to 64)"));
  EXPECT_NE(misfit(adapter, tiny_qwen3()).find("and 4 more"), std::string::npos);  // q, k, v, o of two layers
}

TEST(PeftFits, APairThatIsNotWholeIsNamed) {
  Adapter adapter = small_adapter();
  adapter.matrices[1].b.clear();
  adapter.matrices[2].a.pop_back();
  const std::string text = misfit(adapter, tiny_llama());
  EXPECT_NE(text.find("without a matrix: none; not a whole pair: layers.0.mlp.down_proj, layers.1.self_attn.q_proj"), std::string::npos)
      << text;
}

TEST(PeftFits, AnAdapterWithoutMatricesIsRefused) { EXPECT_NE(misfit({}, tiny_llama()).find("no matrix"), std::string::npos); }

TEST(PeftFits, AGgufAdapterIsNotWrittenForABaseThatItDoesNotFit) {
  const ScratchFolder folder;
  BaseShape base = tiny_llama();
  base.ffn = 320;
  refusal(QUERN_BAD_MODEL, [&] { peft::write_gguf(small_adapter(), base, folder.path("a.gguf")); });
  EXPECT_EQ(folder.files(), 0u);
}

TEST(PeftFits, TheShapeOfABaseComesFromItsFile) {
  const gguf::File file = gguf::File::open(QUERN_SOURCE_DIR "/tests/data/gguf/micro-qwen3-q8_0.gguf");
  const BaseShape base = peft::base_shape(file);
  EXPECT_EQ(base.architecture, "qwen3");
  EXPECT_EQ(base.layers, file.require_u64("qwen3.block_count"));
  for (const peft::Target target : peft::every_target) {
    const auto [inputs, outputs] = base.inputs_and_outputs(target);
    const gguf::TensorInfo& info = file.require_tensor("blk.0." + std::string(peft::gguf_name(target)) + ".weight");
    EXPECT_EQ(static_cast<std::uint64_t>(inputs), info.dims[0]) << info.name;
    EXPECT_EQ(static_cast<std::uint64_t>(outputs), info.dims[1]) << info.name;
  }
}

}  // namespace
}  // namespace quern::test
