#include "samples.hpp"

#include "quern/models/safetensors.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace quern::test {
namespace {

std::vector<float> counted(std::int64_t count, float unit) {
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) * unit;
  return numbers;
}

}  // namespace

std::string data_path(const std::string& name) { return QUERN_SOURCE_DIR "/tests/data/peft/" + name; }

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

peft::BaseShape tiny_llama() { return {"llama", 2, 4, 2, 16, 64, 160}; }
peft::BaseShape tiny_qwen3() { return {"qwen3", 2, 4, 2, 32, 64, 160}; }

peft::Adapter small_adapter() {
  peft::Adapter adapter;
  adapter.alpha = 4;
  adapter.rank = 2;
  adapter.base_model = "some/base";
  for (const std::uint32_t layer : {0u, 1u})
    for (const peft::Target target : {peft::Target::q, peft::Target::down}) {
      const auto [inputs, outputs] = tiny_llama().inputs_and_outputs(target);
      adapter.matrices.push_back({layer, target, 2, inputs, outputs, counted(2 * inputs, 0.125f), counted(2 * outputs, -0.125f)});
    }
  return adapter;
}

// Written once: each write waits for the disk.
std::string small_config() {
  static const std::string text = [] {
    const ScratchFolder folder;
    write_folder(small_adapter(), folder.path("a"));
    return text_of(folder.path("a/adapter_config.json"));
  }();
  return text;
}

std::vector<std::byte> small_tensors(const std::function<std::string(std::string)>& rename) {
  static const std::vector<std::byte> written = [] {
    const ScratchFolder folder;
    write_folder(small_adapter(), folder.path("a"));
    return read_bytes(folder.path("a/adapter_model.safetensors"));
  }();
  if (!rename) return written;
  const auto file = safetensors::File::from_memory(written, "small");
  std::vector<std::vector<std::byte>> bytes;
  std::vector<safetensors::NewTensor> tensors;
  for (const auto& info : file.tensors()) {
    const std::string name = rename(info.name);
    if (name.empty()) continue;
    bytes.push_back(file.read_bytes(info));
    tensors.push_back({name, info.dtype, info.shape, bytes.back()});
  }
  const ScratchFolder folder;
  safetensors::write(folder.path("m"), tensors);
  return read_bytes(folder.path("m"));
}

GgufWriter small_gguf() {
  static const GgufWriter writer = [] {
    const ScratchFolder folder;
    write_gguf(small_adapter(), tiny_llama(), folder.path("a.gguf"));
    return GgufWriter::copy_of(gguf::File::open(folder.path("a.gguf")));
  }();
  return writer;
}

std::string refusal(quern_status code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it was not refused";
  return {};
}

void expect_equal(const peft::Adapter& one, const peft::Adapter& other) {
  EXPECT_EQ(one.alpha, other.alpha);
  EXPECT_EQ(one.rank, other.rank);
  EXPECT_EQ(one.rslora, other.rslora);
  EXPECT_EQ(one.dropout, other.dropout);
  EXPECT_EQ(one.base_model, other.base_model);
  ASSERT_EQ(one.matrices.size(), other.matrices.size());
  for (std::size_t i = 0; i < one.matrices.size(); ++i) {
    const peft::AdapterMatrix &a = one.matrices[i], &b = other.matrices[i];
    EXPECT_EQ(a.name(), b.name());
    EXPECT_EQ(a.rank, b.rank);
    EXPECT_EQ(a.inputs, b.inputs);
    EXPECT_EQ(a.outputs, b.outputs);
    EXPECT_EQ(a.a, b.a) << a.name();
    EXPECT_EQ(a.b, b.b) << a.name();
    EXPECT_EQ(a.alpha, b.alpha) << a.name();
  }
}

}  // namespace quern::test
