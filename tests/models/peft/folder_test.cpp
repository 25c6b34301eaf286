// Folders of peft 0.21: what they give, and that ours are the same.
#include "samples.hpp"

#include "quern/models/safetensors.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace quern::test {
namespace {

using peft::Adapter;
using peft::Target;

TEST(PeftFolder, ReadsAllMatricesInTheirOrder) {
  const Adapter adapter = peft::read_folder(data_path("tiny-llama-lora"));
  EXPECT_EQ(adapter.alpha, 8);
  EXPECT_EQ(adapter.rank, 4);
  EXPECT_FALSE(adapter.rslora);
  EXPECT_EQ(adapter.base_model, "tiny-llama");
  ASSERT_EQ(adapter.matrices.size(), 14u);
  for (std::size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(adapter.matrices[i].layer, i / 7);
    EXPECT_EQ(adapter.matrices[i].target, peft::every_target[i % 7]);
    EXPECT_EQ(adapter.scale(adapter.matrices[i]), 2);
  }
  const peft::AdapterMatrix* gate = adapter.find(1, Target::gate);
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->inputs, 64);
  EXPECT_EQ(gate->outputs, 160);
  const auto file = safetensors::File::open(data_path("tiny-llama-lora/adapter_model.safetensors"));
  EXPECT_EQ(gate->a, file.read_f32("base_model.model.model.layers.1.mlp.gate_proj.lora_A.weight"));
  EXPECT_EQ(gate->b, file.read_f32("base_model.model.model.layers.1.mlp.gate_proj.lora_B.weight"));
  EXPECT_EQ(adapter.find(2, Target::gate), nullptr);
}

TEST(PeftFolder, WritesTheBytesThatPeftWrites) {
  for (const std::string name : {"tiny-llama-lora", "tiny-qwen3-lora", "tiny-llama-lora_rslora"}) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    const Adapter adapter = peft::read_folder(data_path(name));
    peft::write_folder(adapter, folder.path("new/deep"));
    EXPECT_EQ(text_of(folder.path("new/deep/adapter_model.safetensors")), text_of(data_path(name + "/adapter_model.safetensors")));
    expect_equal(peft::read_folder(folder.path("new/deep")), adapter);

    auto written = nlohmann::json::parse(text_of(folder.path("new/deep/adapter_config.json")));
    auto expected = nlohmann::json::parse(text_of(data_path(name + "/adapter_config.json")));
    EXPECT_EQ(written.size(), 41u);
    for (auto* config : {&written, &expected}) std::sort((*config)["target_modules"].begin(), (*config)["target_modules"].end());  // a set
    EXPECT_EQ(written, expected);
    EXPECT_EQ(written["lora_alpha"].type(), expected["lora_alpha"].type());
  }
}

TEST(PeftFolder, ReadsAnAdapterOf16Bits) {
  const Adapter adapter = peft::read_folder(data_path("lora-peft-f16"));
  EXPECT_EQ(adapter.base_model, "HuggingFaceTB/SmolLM2-135M-Instruct");
  ASSERT_EQ(adapter.matrices.size(), 2u);
  const peft::AdapterMatrix* k = adapter.find(0, Target::k);
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->inputs, 576);
  EXPECT_EQ(k->outputs, 192);
  EXPECT_EQ(k->rank, 8);
  const ScratchFolder folder;  // f16 to f32 and back loses nothing
  peft::write_folder(adapter, folder.path("f16"), QUERN_F16);
  EXPECT_EQ(text_of(folder.path("f16/adapter_model.safetensors")), text_of(data_path("lora-peft-f16/adapter_model.safetensors")));
}

TEST(PeftFolder, RslorasScaleDividesByTheRoot) {
  const Adapter adapter = peft::read_folder(data_path("tiny-llama-lora_rslora"));
  EXPECT_TRUE(adapter.rslora);
  EXPECT_EQ(adapter.scale(adapter.matrices[0]), 4);  // 8 / sqrt(4)
}

TEST(PeftFolder, RoundsTo16BitsWhenAsked) {
  const Adapter adapter = peft::read_folder(data_path("tiny-llama-lora"));
  for (const auto& [dtype, digits] : {std::pair(QUERN_F16, 11), std::pair(QUERN_BF16, 8)}) {
    const ScratchFolder folder;
    peft::write_folder(adapter, folder.path("a"), dtype);
    const Adapter rounded = peft::read_folder(folder.path("a"));
    const auto &before = adapter.matrices[0].a, &after = rounded.matrices[0].a;
    EXPECT_NE(before, after);
    // Half an ulp of a number with so many binary digits; the numbers are above 2^-14 or the error is below 2^-25.
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_LE(std::fabs(before[i] - after[i]), std::ldexp(std::fabs(before[i]), -digits) + 0x1p-25f);
  }
}

TEST(PeftFolder, ReadsTheKeysOfOlderReleases) {
  const auto read = [](const std::function<std::string(std::string)>& rename) {
    return peft::read_memory(small_config(), small_tensors(rename), "a");
  };
  const std::string front = "base_model.model.";
  expect_equal(read([](std::string name) { return name.insert(name.size() - 7, ".default"); }), small_adapter());
  expect_equal(read([&](const std::string& name) { return front + name; }), small_adapter());
  expect_equal(read([&](const std::string& name) { return name.substr(front.size()); }), small_adapter());
  expect_equal(read([&](const std::string& name) { return name.substr(front.size() + 6); }), small_adapter());
}

TEST(PeftFolder, RanksAndAlphasOfTheirOwnComeBack) {
  Adapter adapter = small_adapter();
  peft::AdapterMatrix& matrix = adapter.matrices[2];
  matrix.rank = 1;
  matrix.a.resize(static_cast<std::size_t>(matrix.inputs));
  matrix.b.resize(static_cast<std::size_t>(matrix.outputs));
  adapter.matrices[3].alpha = 2.5;
  const ScratchFolder folder;
  peft::write_folder(adapter, folder.path("a"));
  const Adapter read = peft::read_folder(folder.path("a"));
  expect_equal(read, adapter);
  EXPECT_EQ(read.scale(read.matrices[0]), 2);
  EXPECT_EQ(read.scale(read.matrices[2]), 4);
  EXPECT_EQ(read.scale(read.matrices[3]), 1.25);
}

TEST(PeftFolder, AnAdapterThatContradictsItselfIsNotWritten) {
  const ScratchFolder folder;
  const auto refused = [&](const std::function<void(Adapter&)>& change) {
    Adapter adapter = small_adapter();
    change(adapter);
    return refusal(QUERN_INVALID_ARGUMENT, [&] { peft::write_folder(adapter, folder.path("a"), QUERN_F16); });
  };
  EXPECT_NE(refused([](Adapter& a) { a.matrices.clear(); }).find("no matrix"), std::string::npos);
  EXPECT_NE(refused([](Adapter& a) { a.matrices[1].a.pop_back(); }).find("layers.0.mlp.down_proj"), std::string::npos);
  EXPECT_NE(refused([](Adapter& a) { a.matrices[1].rank = 0; }).find("layers.0.mlp.down_proj"), std::string::npos);
  EXPECT_NE(refused([](Adapter& a) { a.matrices[1] = a.matrices[0]; }).find("twice"), std::string::npos);
  EXPECT_NE(refused([](Adapter& a) { a.alpha = 0; }).find("alpha"), std::string::npos);
  EXPECT_NE(refused([](Adapter& a) { a.matrices[0].a[0] = 1e6f; }).find("1e+06 is beyond the largest of f16"), std::string::npos);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(PeftFolder, WhatIsNoFolderOfPeftIsNamed) {
  const ScratchFolder folder;
  EXPECT_NE(refusal(QUERN_NOT_FOUND, [&] { peft::read_folder(folder.path("none")); }).find("none"), std::string::npos);
  EXPECT_NE(refusal(QUERN_NOT_FOUND, [&] { peft::read_folder(folder.path(".")); }).find("has no adapter_config.json"), std::string::npos);
  peft::write_folder(small_adapter(), folder.path("a"));
  std::filesystem::rename(folder.path("a/adapter_model.safetensors"), folder.path("a/adapter_model.bin"));
  EXPECT_NE(refusal(QUERN_UNSUPPORTED, [&] { peft::read_folder(folder.path("a")); }).find("pickle"), std::string::npos);
}

}  // namespace
}  // namespace quern::test
