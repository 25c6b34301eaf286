// The library's writer: what it writes, our reader reads, and equals what the tests' own writer makes.
#include "sample.hpp"

#include "quern/models/gguf_writer.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <fstream>
#include <limits>

namespace quern::test {
namespace {

using gguf::File;
using gguf::Writer;

quern_status code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) { return error.code(); }
  return QUERN_OK;
}
constexpr quern_status refused = QUERN_INVALID_ARGUMENT;

/// A copy of a file by the library's writer.
void copy_to(const File& file, const std::string& path, std::uint32_t alignment) {
  Writer writer(alignment);
  writer.copy_keys(file);
  for (const gguf::TensorInfo& info : file.tensors()) writer.tensor(info.name, {info.dims, info.dims + info.n_dims}, info.dtype);
  writer.begin(path);
  for (const gguf::TensorInfo& info : file.tensors()) writer.append(file.data(info));
  writer.commit();
}

TEST(GgufLibraryWriter, ACopyHasTheKeysTensorsAndBytesOfTheFile) {
  const ScratchFolder folder;
  const auto bytes = sample().remove("general.alignment").bytes();
  const File file = File::from_memory(bytes, "m");
  for (const std::uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    copy_to(file, folder.path("copy"), alignment);
    const File copy = File::open(folder.path("copy"));
    EXPECT_EQ(copy.find_u64("general.alignment").value_or(32), alignment);
    std::vector<std::string_view> keys = copy.keys();
    if (alignment != 32) keys.erase(keys.begin());
    ASSERT_EQ(keys, file.keys());
    for (const std::string_view key : file.keys()) {
      EXPECT_EQ(copy.type_of(key), file.type_of(key));
      const auto one = copy.value_bytes(key), other = file.value_bytes(key);
      EXPECT_TRUE(std::ranges::equal(one, other)) << key;
    }
    ASSERT_EQ(copy.tensors().size(), file.tensors().size());
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      EXPECT_EQ(copy.tensors()[i].name, file.tensors()[i].name);
      EXPECT_EQ(copy.tensors()[i].ggml_type, file.tensors()[i].ggml_type);
      EXPECT_TRUE(std::ranges::equal(copy.tensors()[i].dims, file.tensors()[i].dims));
      EXPECT_EQ(copy.tensors()[i].offset % alignment, 0u);
      EXPECT_TRUE(std::ranges::equal(copy.data(copy.tensors()[i]), file.data(file.tensors()[i])));
    }
  }
}

TEST(GgufLibraryWriter, EveryTypeOfValueLiesAsTheTestsWriterPutsIt) {
  const ScratchFolder folder;
  Writer writer;
  writer.u8("u8", 255);
  writer.i8("i8", -128);
  writer.u16("u16", 65535);
  writer.i16("i16", -32768);
  writer.u32("u32", 4294967295u);
  writer.i32("i32", std::numeric_limits<std::int32_t>::min());
  writer.u64("u64", ~std::uint64_t{0});
  writer.i64("i64", std::numeric_limits<std::int64_t>::min());
  writer.f32("f32", 1.5f);
  writer.f64("f64", -2.25);
  writer.boolean("boolean", true);
  writer.string("string", std::string_view("a\0b", 3));
  const std::string texts[] = {"", "one", "two"};
  writer.strings("strings", texts);
  writer.booleans("booleans", {true, false});
  const std::int32_t ints[] = {-1, 2};
  writer.numbers<std::int32_t>("i32s", ints);
  const std::uint64_t large[] = {~std::uint64_t{0}, 1};
  writer.numbers<std::uint64_t>("u64s", large);
  const float floats[] = {0.5f};
  writer.numbers<float>("f32s", floats);
  writer.numbers<double>("empty", {});
  writer.tensor("t", {3}, QUERN_F32);
  writer.begin(folder.path("m"));
  const float numbers[] = {1, 2, 3};
  writer.append(std::as_bytes(std::span(numbers)));
  writer.commit();

  GgufWriter expected;
  expected.u8("u8", 255).i8("i8", -128).u16("u16", 65535).i16("i16", -32768).u32("u32", 4294967295u);
  expected.i32("i32", std::numeric_limits<std::int32_t>::min()).u64("u64", ~std::uint64_t{0});
  expected.i64("i64", std::numeric_limits<std::int64_t>::min()).f32("f32", 1.5f).f64("f64", -2.25).boolean("boolean", true);
  expected.string("string", std::string_view("a\0b", 3)).strings("strings", {"", "one", "two"}).booleans("booleans", {1, 0});
  expected.i32s("i32s", {-1, 2}).u64s("u64s", {~std::uint64_t{0}, 1}).f32s("f32s", {0.5f}).f64s("empty", {});
  expected.tensor_f32("t", {3}, {1, 2, 3});
  auto wanted = expected.bytes();
  wanted.resize((wanted.size() + 31) / 32 * 32);  // the library fills up behind the last tensor too
  EXPECT_EQ(read_bytes(folder.path("m")), wanted);
  EXPECT_EQ(File::open(folder.path("m")).require_u64("u64"), ~std::uint64_t{0});
}

TEST(GgufLibraryWriter, CopyOfASplitModelIsWhole) {
  const ScratchFolder folder;
  const File file = File::open(QUERN_SOURCE_DIR "/tests/data/gguf/micro-split-00001-of-00002.gguf");
  ASSERT_TRUE(file.has("split.count"));
  copy_to(file, folder.path("whole.gguf"), 32);
  const File copy = File::open(folder.path("whole.gguf"));
  EXPECT_FALSE(copy.has("split.count"));
  EXPECT_EQ(copy.shard_count(), 1u);
  ASSERT_EQ(copy.tensors().size(), file.tensors().size());
  for (const gguf::TensorInfo& info : file.tensors())
    EXPECT_TRUE(std::ranges::equal(copy.data(copy.require_tensor(info.name)), file.data(info))) << info.name;
}

TEST(GgufLibraryWriter, AKeyThatIsThereKeepsItsPlaceAndARemovedOneIsGone) {
  const ScratchFolder folder;
  Writer writer;
  writer.string("a", "old");
  writer.u32("b", 1);
  writer.u32("c", 1);
  writer.f32("a", 2);
  writer.remove("c");
  writer.begin(folder.path("m"));
  writer.commit();
  const File file = File::open(folder.path("m"));
  EXPECT_EQ(file.keys(), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(file.require_f64("a"), 2);
  EXPECT_TRUE(file.tensors().empty());
}

TEST(GgufLibraryWriter, PiecesMayEndAnywhere) {
  const ScratchFolder folder;
  Writer writer;
  writer.tensor("a", {3}, QUERN_F16);
  writer.tensor("b", {32, 2}, QUERN_Q8_0);
  writer.begin(folder.path("m"));
  std::vector<std::byte> bytes(6 + 68);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (std::size_t at = 0, size = 1; at < bytes.size(); at += size, size = std::min<std::size_t>(at % 5 + 1, bytes.size() - at))
    writer.append(std::span(bytes).subspan(at, size));
  writer.commit();
  const File file = File::open(folder.path("m"));
  EXPECT_TRUE(std::ranges::equal(file.data(file.require_tensor("a")), std::span(bytes).first(6)));
  EXPECT_TRUE(std::ranges::equal(file.data(file.require_tensor("b")), std::span(bytes).subspan(6)));
}

TEST(GgufLibraryWriter, RefusesWhatTheReaderWould) {
  const ScratchFolder folder;
  for (const std::uint32_t alignment : {0u, 4u, 33u, 1u << 25}) EXPECT_EQ(code_of([&] { Writer writer(alignment); }), refused) << alignment;
  Writer writer;
  EXPECT_EQ(code_of([&] { writer.u32("", 1); }), refused);
  EXPECT_EQ(code_of([&] { writer.u32(std::string(5000, 'k'), 1); }), refused);
  EXPECT_EQ(code_of([&] { writer.u32("general.alignment", 64); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("", {1}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor(std::string(300, 'n'), {1}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {1, 1, 1, 1, 1}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {4, 0}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {33}, QUERN_Q8_0); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {std::uint64_t{1} << 62}, QUERN_F32); }), refused);
  EXPECT_EQ(code_of([&] { writer.tensor("t", {1}, QUERN_U8); }), refused);
  writer.tensor("t", {1}, QUERN_F32);
  writer.tensor("t", {2}, QUERN_F32);
  EXPECT_EQ(code_of([&] { writer.begin(folder.path("m")); }), refused);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(GgufLibraryWriter, BytesOutOfTurnAreRefusedAndWithoutCommitTheOldFileStays) {
  const ScratchFolder folder;
  std::ofstream(folder.path("m")) << "old";
  {
    Writer writer;
    writer.tensor("t", {2}, QUERN_F32);
    const std::vector<std::byte> bytes(9);
    EXPECT_EQ(code_of([&] { writer.append(bytes); }), refused);
    writer.begin(folder.path("m"));
    EXPECT_EQ(code_of([&] { writer.u32("a", 1); }), refused);
    EXPECT_EQ(code_of([&] { writer.commit(); }), refused);
    EXPECT_EQ(code_of([&] { writer.append(bytes); }), refused);
  }
  EXPECT_EQ(read_bytes(folder.path("m")).size(), 3u);
  EXPECT_EQ(folder.files(), 1u);
}

}  // namespace
}  // namespace quern::test
