// What a good file gives.
#include "sample.hpp"
#include "walk.hpp"

#include "support/processor_time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

namespace quern::test {
namespace {

using gguf::File;
using ::testing::ElementsAre;

float f32_at(std::span<const std::byte> bytes, std::size_t index) {
  float value;
  std::memcpy(&value, bytes.data() + 4 * index, 4);
  return value;
}

TEST(GgufReader, ListsTensorsInTheOrderOfTheFileWithTheirShapesAndTypes) {
  sample().write(temporary("m.gguf"));
  const File file = File::open(temporary("m.gguf"));
  ASSERT_EQ(file.tensors().size(), 3u);
  const gguf::TensorInfo& up = file.tensors()[1];
  EXPECT_EQ(up.name, "blk.0.ffn_up.weight");
  EXPECT_EQ(up.n_dims, 2u);
  EXPECT_THAT(up.dims, ElementsAre(32, 2, 1, 1));
  EXPECT_EQ(up.elements(), 64u);
  EXPECT_EQ(up.dtype, QUERN_Q8_0);
  EXPECT_EQ(gguf::type_name(up.dtype), "Q8_0");
  EXPECT_EQ(up.bytes, 68u);
  EXPECT_EQ(up.offset % 32, 0u);
  EXPECT_EQ(up.shard, 0u);
}

TEST(GgufReader, GivesTheBytesOfATensorAsTheyWereWritten) {
  sample().write(temporary("m.gguf"));
  const File file = File::open(temporary("m.gguf"));
  const auto data = file.data(file.require_tensor("token_embd.weight"));
  ASSERT_EQ(data.size(), 48u);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(f32_at(data, i), static_cast<float>(i));
  EXPECT_EQ(f32_at(file.data(file.require_tensor("output_norm.weight")), 3), 4.0f);
}

TEST(GgufReader, FindsATensorByItsWholeNameOnly) {
  const auto bytes = sample().bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.find_tensor("output_norm.weight"), &file.tensors()[2]);
  EXPECT_EQ(file.find_tensor("output_norm"), nullptr);
  EXPECT_EQ(file.find_tensor("output_norm.weight2"), nullptr);
  EXPECT_EQ(file.find_tensor(""), nullptr);
}

TEST(GgufReader, ReadsVersion2LikeVersion3) {
  const auto bytes = sample().version(2).bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.require_u64("llama.block_count"), 2u);
}

TEST(GgufReader, ReadsAFileWithoutTensors) {
  const auto bytes = GgufWriter().strings("tokenizer.ggml.tokens", {"a", "b"}).bytes();
  const File file = File::from_memory(bytes, "vocabulary");
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.require_strings("tokenizer.ggml.tokens").size(), 2u);
}

TEST(GgufReader, ReadsAFileWithoutKeys) {
  const auto bytes = GgufWriter().tensor_f32("t", {2}, {1, 2}).bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_TRUE(file.keys().empty());
  EXPECT_EQ(file.tensors().size(), 1u);
}

TEST(GgufReader, HonoursAnAlignmentOf4096) {
  const auto bytes = sample().u32("general.alignment", 4096).align_to(4096).bytes();
  const File file = File::from_memory(bytes, "m");
  for (const auto& tensor : file.tensors()) EXPECT_EQ(tensor.offset % 4096, 0u);
  EXPECT_EQ(f32_at(file.data(file.tensors()[0]), 11), 11.0f);
}

TEST(GgufReader, AcceptsGapsBetweenTensorsAndBytesAfterTheLast) {
  auto writer = sample();
  writer.tensor("output_norm.weight").offset = 256;
  auto bytes = writer.bytes();
  bytes.resize(bytes.size() + 200);
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.tensors()[2].offset - file.tensors()[0].offset, 256u);
}

TEST(GgufReader, MapsEveryTypeThatIsSupported) {
  struct Type {
    std::uint32_t ggml;
    quern_dtype dtype;
    std::uint64_t bytes;  // of 256 elements
  };
  const Type types[] = {{0, QUERN_F32, 1024},  {1, QUERN_F16, 512},   {2, QUERN_Q4_0, 144},  {3, QUERN_Q4_1, 160},  {6, QUERN_Q5_0, 176},
                        {7, QUERN_Q5_1, 192},  {8, QUERN_Q8_0, 272},  {12, QUERN_Q4_K, 144}, {13, QUERN_Q5_K, 176}, {14, QUERN_Q6_K, 210},
                        {26, QUERN_I32, 1024}, {27, QUERN_I64, 2048}, {30, QUERN_BF16, 512}};
  GgufWriter writer;
  for (const Type& type : types) writer.tensor("t" + std::to_string(type.ggml), {256}, type.ggml, GgufWriter::Bytes(type.bytes));
  const auto bytes = writer.bytes();
  const File file = File::from_memory(bytes, "m");
  ASSERT_EQ(file.tensors().size(), std::size(types));
  for (std::size_t i = 0; i < std::size(types); ++i) {
    EXPECT_EQ(file.tensors()[i].dtype, types[i].dtype);
    EXPECT_EQ(file.tensors()[i].bytes, types[i].bytes);
  }
}

TEST(GgufReader, StaysUsableAfterAMove) {
  sample().write(temporary("m.gguf"));
  File first = File::open(temporary("m.gguf"));
  const std::string_view architecture = first.require_string("general.architecture");
  const auto sum = walk(first);
  File second = std::move(first);
  EXPECT_EQ(architecture, "llama");
  EXPECT_EQ(walk(second), sum);
  second = File::open(temporary("m.gguf"));
  EXPECT_EQ(walk(second), sum);
}

TEST(GgufReader, GivesTheSameFromAFileAndFromMemory) {
  const auto bytes = sample().bytes();
  write_bytes(temporary("m.gguf"), bytes);
  const std::string name = temporary("m.gguf").string();
  const File mapped = File::open(name);
  const File borrowed = File::from_memory(bytes, name);
  EXPECT_EQ(walk(mapped), walk(borrowed));
  EXPECT_EQ(mapped.file_bytes(), bytes.size());
  EXPECT_EQ(mapped.name(), name);
  EXPECT_EQ(mapped.shard_name(0), name);
}

TEST(GgufReader, RefusesToNameAShardThatIsNotThere) {
  const auto bytes = sample().bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_THROW(file.shard_name(1), Error);
}

TEST(GgufReader, DroppedPagesAreReadAgain) {
  auto writer = GgufWriter();
  GgufWriter::Bytes data(1 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 251);
  writer.tensor("t", {data.size() / 4}, 0, data).write(temporary("m.gguf"));
  const File file = File::open(temporary("m.gguf"));
  const auto& tensor = file.tensors()[0];
  file.drop_pages(tensor);
  EXPECT_TRUE(std::ranges::equal(file.data(tensor), data));
}

// The strings are found by their lengths and read where they lie. Four times as many take four times as long, or little more where caches
// end; what compares each with all takes sixteen times as long.
TEST(GgufReader, OpensAVocabularyInTimeThatGoesByItsTokens) {
  constexpr std::size_t few = 37500, many = 4 * few;
  const auto write = [](std::size_t count, const std::filesystem::path& path) {
    std::vector<std::string> tokens(count), merges(count);
    for (std::size_t i = 0; i < count; ++i) {
      tokens[i] = "token" + std::to_string(i);
      merges[i] = "to ken" + std::to_string(i);
    }
    GgufWriter().strings("tokenizer.ggml.tokens", tokens).strings("tokenizer.ggml.merges", merges).write(path);
  };
  const auto open = [](const std::filesystem::path& path, std::size_t count) {
    const File file = File::open(path);
    const auto list = file.require_strings("tokenizer.ggml.tokens").to_vector();
    ASSERT_EQ(list.size(), count);
    EXPECT_EQ(list.back(), "token" + std::to_string(count - 1));
  };
  write(few, temporary("few.gguf"));
  write(many, temporary("many.gguf"));
  EXPECT_LT(growth(
                8, [&] { open(temporary("few.gguf"), few); }, [&] { open(temporary("many.gguf"), many); }),
            8);
}

}  // namespace
}  // namespace quern::test
