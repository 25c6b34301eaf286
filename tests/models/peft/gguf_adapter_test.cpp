// GGUF adapters: llama.cpp's own, and ours against them.
#include "samples.hpp"

#include "quern/models/gguf_writer.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace quern::test {
namespace {

using peft::Adapter;
using peft::BaseShape;

struct Base {
  std::string name;
  BaseShape shape;
};
const Base bases[] = {{"tiny-llama", tiny_llama()}, {"tiny-qwen3", tiny_qwen3()}};

TEST(PeftGguf, WritesTheTensorsThatLlamaCppsConverterWrites) {
  for (const Base& base : bases) {
    SCOPED_TRACE(base.name);
    const ScratchFolder folder;
    peft::write_gguf(peft::read_folder(data_path(base.name + "-lora")), base.shape, folder.path("a.gguf"));
    const gguf::File ours = gguf::File::open(folder.path("a.gguf")), theirs = gguf::File::open(data_path(base.name + "-lora.gguf"));
    ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
    for (const gguf::TensorInfo& info : theirs.tensors()) {
      const gguf::TensorInfo& own = ours.require_tensor(info.name);
      EXPECT_EQ(own.n_dims, info.n_dims);
      EXPECT_TRUE(std::ranges::equal(own.dims, info.dims)) << info.name;
      EXPECT_EQ(own.ggml_type, info.ggml_type);
      EXPECT_TRUE(std::ranges::equal(ours.data(own), theirs.data(info))) << info.name;
    }
    for (const std::string_view key : theirs.keys()) {
      if (key == "general.name") continue;  // made of the folder's name
      EXPECT_EQ(ours.type_of(key), theirs.type_of(key)) << key;
      EXPECT_TRUE(std::ranges::equal(ours.value_bytes(key), theirs.value_bytes(key))) << key;
    }
  }
}

TEST(PeftGguf, ReadsWhatLlamaCppsConverterWrites) {
  for (const Base& base : bases) {
    SCOPED_TRACE(base.name);
    Adapter expected = peft::read_folder(data_path(base.name + "-lora"));
    expected.base_model.clear();
    expect_equal(peft::read_gguf(data_path(base.name + "-lora.gguf"), base.shape), expected);
  }
}

TEST(PeftGguf, OnlyLlamaReordersRowsAndOnlyOfBOfQAndK) {
  const Adapter adapter = peft::read_folder(data_path("tiny-llama-lora"));
  BaseShape other = tiny_llama();
  other.architecture = "qwen2";
  const ScratchFolder folder;
  peft::write_gguf(adapter, tiny_llama(), folder.path("llama.gguf"));
  peft::write_gguf(adapter, other, folder.path("qwen2.gguf"));
  const gguf::File llama = gguf::File::open(folder.path("llama.gguf")), qwen2 = gguf::File::open(folder.path("qwen2.gguf"));
  for (const gguf::TensorInfo& info : llama.tensors()) {
    const bool equal = std::ranges::equal(llama.data(info), qwen2.data(qwen2.require_tensor(info.name)));
    const bool rotary = info.name.ends_with("attn_q.weight.lora_b") || info.name.ends_with("attn_k.weight.lora_b");
    EXPECT_EQ(equal, !rotary) << info.name;
  }
}

TEST(PeftGguf, TheScaleOfRsloraSurvives) {
  const Adapter adapter = peft::read_folder(data_path("tiny-llama-lora_rslora"));
  const ScratchFolder folder;
  peft::write_gguf(adapter, tiny_llama(), folder.path("a.gguf"));
  EXPECT_EQ(gguf::File::open(folder.path("a.gguf")).require_f64("adapter.lora.alpha"), 16);  // 8 * sqrt(4)
  const Adapter read = peft::read_gguf(folder.path("a.gguf"), tiny_llama());
  ASSERT_EQ(read.matrices.size(), adapter.matrices.size());
  for (std::size_t i = 0; i < read.matrices.size(); ++i) {
    EXPECT_EQ(read.scale(read.matrices[i]), adapter.scale(adapter.matrices[i]));
    EXPECT_EQ(read.matrices[i].b, adapter.matrices[i].b);
  }
  peft::write_folder(read, folder.path("back"));
  const Adapter back = peft::read_folder(folder.path("back"));
  EXPECT_EQ(back.scale(back.matrices[5]), adapter.scale(adapter.matrices[5]));
}

TEST(PeftGguf, RanksOfTheirOwnComeBackWithTheirScales) {
  Adapter adapter = small_adapter();
  peft::AdapterMatrix& matrix = adapter.matrices[2];
  matrix.rank = 1;
  matrix.a.resize(static_cast<std::size_t>(matrix.inputs));
  matrix.b.resize(static_cast<std::size_t>(matrix.outputs));
  const ScratchFolder folder;
  peft::write_gguf(adapter, tiny_llama(), folder.path("a.gguf"), QUERN_F32, "My adapter");
  expect_equal(peft::read_gguf(folder.path("a.gguf"), tiny_llama()), adapter);
  EXPECT_EQ(gguf::File::open(folder.path("a.gguf")).require_string("general.name"), "My adapter");
  // With rsLoRA the two would need alpha * sqrt(2) and alpha.
  adapter.rslora = true;
  const std::string text = refusal(QUERN_UNSUPPORTED, [&] { peft::write_gguf(adapter, tiny_llama(), folder.path("b.gguf")); });
  EXPECT_NE(text.find("layers.1.self_attn.q_proj"), std::string::npos) << text;
  adapter.rslora = false;
  adapter.matrices[3].alpha = 5;
  EXPECT_NE(
      refusal(QUERN_UNSUPPORTED, [&] { peft::write_gguf(adapter, tiny_llama(), folder.path("b.gguf")); }).find("layers.1.mlp.down_proj"),
      std::string::npos);
  EXPECT_EQ(folder.files(), 1u);
}

TEST(PeftGguf, ReadsTypesOf16And8Bits) {
  const Adapter adapter = small_adapter();  // multiples of 1/8 up to 40: exact in f16, and to 8 bits in bf16
  const ScratchFolder folder;
  peft::write_gguf(adapter, tiny_llama(), folder.path("f16.gguf"), QUERN_F16);
  expect_equal(peft::read_gguf(folder.path("f16.gguf"), tiny_llama()), adapter);
  peft::write_gguf(adapter, tiny_llama(), folder.path("bf16.gguf"), QUERN_BF16);
  const Adapter rounded = peft::read_gguf(folder.path("bf16.gguf"), tiny_llama());
  for (std::size_t i = 0; i < 128; ++i) EXPECT_NEAR(rounded.matrices[0].a[i], adapter.matrices[0].a[i], adapter.matrices[0].a[i] * 0x1p-8);
}

TEST(PeftGguf, ReadsBlocksOfQ8) {
  GgufWriter writer = small_gguf();
  GgufWriter::Bytes blocks;
  for (int block = 0; block < 4; ++block) {
    blocks.push_back(std::byte{0x00});
    blocks.push_back(std::byte{0x38});  // 0.5
    for (int i = 0; i < 32; ++i) blocks.push_back(static_cast<std::byte>(i - 16));
  }
  auto& tensor = writer.tensor("blk.0.attn_q.weight.lora_a");
  tensor.type = 8;
  tensor.data = blocks;
  const auto bytes = writer.bytes();
  const Adapter adapter = peft::read_gguf(gguf::File::from_memory(bytes, "m"), tiny_llama());
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(adapter.matrices[0].a[i], (static_cast<float>(i % 32) - 16) / 2);
}

TEST(PeftGguf, AnAlphaOfZeroStandsForAScaleOfOne) {
  const auto bytes = small_gguf().f32("adapter.lora.alpha", 0).bytes();
  const Adapter adapter = peft::read_gguf(gguf::File::from_memory(bytes, "m"), tiny_llama());
  for (const peft::AdapterMatrix& matrix : adapter.matrices) EXPECT_EQ(adapter.scale(matrix), 1);
}

TEST(PeftGguf, TheNameOfTheBaseIsTheOneThatPeftLoadsItBy) {
  const auto name = [](GgufWriter writer) {
    const auto bytes = writer.bytes();
    return peft::read_gguf(gguf::File::from_memory(bytes, "m"), tiny_llama()).base_model;
  };
  EXPECT_EQ(name(small_gguf()), "some/base");
  EXPECT_EQ(name(small_gguf().string("general.base_model.0.repo_url", "https://huggingface.co/a/b")), "a/b");
  EXPECT_EQ(name(small_gguf().string("general.base_model.0.repo_url", "https://elsewhere/a/b")), "some/base");
  EXPECT_EQ(name(small_gguf().remove("general.base_model.0.name")), "");
}

}  // namespace
}  // namespace quern::test
