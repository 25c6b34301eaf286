// What is written is read back, and is the same bytes each time.
#include "quern/models/safetensors.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>

namespace quern::test {
namespace {

using safetensors::Dtype;
using safetensors::File;
using safetensors::NewTensor;
using safetensors::Writer;

std::vector<std::byte> numbered(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

quern_status code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) { return error.code(); }
  return QUERN_OK;
}

TEST(SafetensorsWriter, WhatIsWrittenIsReadBack) {
  const ScratchFolder folder;
  const auto four = numbered(4), eight = numbered(8), six = numbered(6);
  const NewTensor tensors[] = {{"b \"quoted\" \xc3\xa9", Dtype::f32, {2, 1}, eight},
                               {"a", Dtype::f32, {}, four},
                               {"c", Dtype::f16, {3}, six},
                               {"none", Dtype::i64, {0, 5}, {}}};
  safetensors::write(folder.path("m"), tensors, {{"format", "pt"}, {"line", "a\nb"}});
  const File file = File::open(folder.path("m"));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"line", "a\nb"}}));
  for (const NewTensor& tensor : tensors) {
    const auto& info = file.require(tensor.name);
    EXPECT_EQ(info.dtype, tensor.dtype);
    EXPECT_EQ(info.shape, tensor.shape);
    EXPECT_EQ(file.read_bytes(info), std::vector<std::byte>(tensor.bytes.begin(), tensor.bytes.end()));
  }
}

TEST(SafetensorsWriter, TheOrderOfDeclarationChangesNoByte) {
  const ScratchFolder folder;
  const auto four = numbered(4), two = numbered(2);
  const NewTensor forth[] = {{"a", Dtype::f16, {1}, two}, {"b", Dtype::f32, {1}, four}, {"c", Dtype::f32, {1}, four}};
  const NewTensor back[] = {forth[2], forth[1], forth[0]};
  safetensors::write(folder.path("1"), forth);
  safetensors::write(folder.path("2"), back);
  const std::string text = contents(folder.path("1"));
  EXPECT_EQ(text, contents(folder.path("2")));
  EXPECT_EQ(
      text.substr(8, text.size() - 8 - 10),
      "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
      "\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[8,10]}}       ");
}

TEST(SafetensorsWriter, PiecesMayEndAnywhere) {
  const ScratchFolder folder;
  const auto all = numbered(20);
  Writer writer;
  writer.tensor("a", Dtype::f32, {3});
  writer.tensor("b", Dtype::f32, {2});
  writer.begin(folder.path("m"));
  for (const std::byte& byte : all) writer.append({&byte, 1});
  writer.commit();
  const File file = File::open(folder.path("m"));
  EXPECT_EQ(file.read_bytes(file.require("b")), std::vector<std::byte>(all.begin() + 12, all.end()));
}

TEST(SafetensorsWriter, WithoutCommitNothingStaysAndTheOldFileDoes) {
  const ScratchFolder folder;
  std::ofstream(folder.path("m")) << "old";
  {
    Writer writer;
    writer.tensor("a", Dtype::f32, {1});
    writer.begin(folder.path("m"));
    writer.append(numbered(4));
  }
  EXPECT_EQ(contents(folder.path("m")), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(SafetensorsWriter, RefusesTooManyAndTooFewBytes) {
  const ScratchFolder folder;
  Writer writer;
  writer.tensor("a", Dtype::f32, {1});
  writer.begin(folder.path("m"));
  writer.append(numbered(3));
  EXPECT_EQ(code_of([&] { writer.append(numbered(2)); }), quern_status{QUERN_INVALID_ARGUMENT});
  EXPECT_EQ(code_of([&] { writer.commit(); }), quern_status{QUERN_INVALID_ARGUMENT});
  writer.append(numbered(1));
  EXPECT_EQ(code_of([&] { writer.commit(); }), quern_status{QUERN_OK});
  EXPECT_EQ(code_of([&] { writer.append(numbered(1)); }), quern_status{QUERN_INVALID_ARGUMENT});
}

TEST(SafetensorsWriter, RefusesWhatTheReaderWould) {
  const ScratchFolder folder;
  Writer writer;
  EXPECT_EQ(code_of([&] { writer.tensor("", Dtype::f32, {1}); }), quern_status{QUERN_INVALID_ARGUMENT});
  EXPECT_EQ(code_of([&] { writer.tensor("__metadata__", Dtype::f32, {1}); }), quern_status{QUERN_INVALID_ARGUMENT});
  EXPECT_EQ(code_of([&] {
              writer.tensor("a", Dtype::f32, {std::uint64_t{1} << 40, std::uint64_t{1} << 40});
            }),
            quern_status{QUERN_INVALID_ARGUMENT});
  EXPECT_EQ(code_of([&] { writer.tensor("a", Dtype::f4, {3}); }), quern_status{QUERN_INVALID_ARGUMENT});
  writer.tensor("a", Dtype::f32, {1});
  writer.tensor("a", Dtype::f16, {1});
  EXPECT_EQ(code_of([&] { writer.begin(folder.path("m")); }), quern_status{QUERN_INVALID_ARGUMENT});
  EXPECT_EQ(folder.files(), 0u);
}

TEST(SafetensorsWriter, AFolderThatIsNotThereIsAnErrorOfTheSystem) {
  const ScratchFolder folder;
  EXPECT_EQ(code_of([&] { safetensors::write(folder.path("none/m"), {}); }), quern_status{QUERN_IO});
}

}  // namespace
}  // namespace quern::test
