// Models in several files. Class 16 of the corpus: shards that are missing, doubled, strangers or misnamed.
#include "malformed.hpp"
#include "walk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace quern::test {
namespace {

using gguf::File;
using ::testing::HasSubstr;

/// Three shards: keys in the first; tensors "a", "b" and "c" of one float each, 1, 2 and 3, one in each
/// shard.
struct Split {
  std::array<GgufWriter, 3> shards;
  std::string stem = "m";

  Split() {
    shards[0].string("general.architecture", "llama").u32("llama.block_count", 2);
    for (std::uint16_t i = 0; i < 3; ++i) {
      shards[i].u16("split.no", i).u16("split.count", 3).i32("split.tensors.count", 3);
      shards[i].tensor_f32(std::string(1, static_cast<char>('a' + i)), {1}, {static_cast<float>(i + 1)});
    }
  }
  std::filesystem::path path(int number) const { return temporary(stem + "-0000" + std::to_string(number) + "-of-00003.gguf"); }
  void write() const {
    for (int i = 0; i < 3; ++i) shards[static_cast<std::size_t>(i)].write(path(i + 1));
  }
};

/// The file at `path` is refused, and its passing twin, the shards as Split has them, is read.
void expect_error(const std::filesystem::path& path, const std::vector<std::string>& words, quern_status code = QUERN_BAD_MODEL) {
  Split twin;
  twin.stem = "twin";
  twin.write();
  EXPECT_NO_THROW(File::open(twin.path(1)));
  expect_refused(path, code, words);
}

TEST(GgufSplit, AnyShardOpensTheWholeModel) {
  const Split split;
  split.write();
  for (int number = 1; number <= 3; ++number) {
    const File file = File::open(split.path(number));
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.shard_count(), 3u);
    EXPECT_EQ(file.name(), split.path(number));
    EXPECT_EQ(file.shard_name(2), split.path(3));
    EXPECT_EQ(file.require_string("general.architecture"), "llama");
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto& tensor = file.require_tensor(std::string(1, static_cast<char>('a' + i)));
      EXPECT_EQ(tensor.shard, i);
      float value;
      std::memcpy(&value, file.data(tensor).data(), 4);
      EXPECT_EQ(value, static_cast<float>(i + 1));
    }
  }
}

TEST(GgufSplit, FileBytesIsTheSumOfAllShards) {
  const Split split;
  split.write();
  std::uint64_t sum = 0;
  for (int i = 1; i <= 3; ++i) sum += std::filesystem::file_size(split.path(i));
  EXPECT_EQ(File::open(split.path(1)).file_bytes(), sum);
}

TEST(GgufSplit, AFirstShardWithoutTensorsIsFine) {
  Split split;
  split.shards[0].remove_tensor("a");
  for (auto& shard : split.shards) shard.i32("split.tensors.count", 2);
  split.write();
  EXPECT_EQ(File::open(split.path(1)).tensors().size(), 2u);
}

TEST(GgufSplit, ShardsMayBeLinksIntoAnotherDirectory) {
  Split split;
  for (int i = 0; i < 3; ++i) {
    split.shards[static_cast<std::size_t>(i)].write(temporary("blob" + std::to_string(i)));
    std::filesystem::create_symlink(temporary("blob" + std::to_string(i)), split.path(i + 1));
  }
  EXPECT_EQ(File::open(split.path(2)).tensors().size(), 3u);
}

TEST(GgufSplit, ACountOfOneIsAWholeModelUnderAnyName) {
  sample().u16("split.no", 0).u16("split.count", 1).i32("split.tensors.count", 3).write(temporary("whole.gguf"));
  EXPECT_EQ(File::open(temporary("whole.gguf")).shard_count(), 1u);
}

TEST(GgufSplit, Class16AMissingShardIsNamed) {
  const Split split;
  split.write();
  std::filesystem::remove(split.path(2));
  expect_error(split.path(1), {"m-00002-of-00003.gguf: there is no such file", "split into 3"}, QUERN_NOT_FOUND);
  expect_error(split.path(3), {"m-00002-of-00003.gguf: there is no such file"}, QUERN_NOT_FOUND);
}

TEST(GgufSplit, Class16AShardThatIsADirectoryIsRefused) {
  const Split split;
  split.write();
  std::filesystem::remove(split.path(2));
  std::filesystem::create_directory(split.path(2));
  expect_error(split.path(1), {"m-00002-of-00003.gguf: is a folder"});
}

TEST(GgufSplit, Class16AShardInThePlaceOfAnotherIsRefused) {
  const Split split;
  split.write();
  std::filesystem::copy_file(split.path(3), split.path(2), std::filesystem::copy_options::overwrite_existing);
  expect_error(split.path(1), {"m-00002-of-00003.gguf: key 'split.no' (byte", "part 3 of 3; part 2 of 3 belongs here"});
}

TEST(GgufSplit, Class16AShardOpenedUnderTheNameOfAnotherIsRefused) {
  const Split split;
  split.write();
  std::filesystem::copy_file(split.path(3), split.path(1), std::filesystem::copy_options::overwrite_existing);
  expect_error(split.path(1), {"key 'split.no' (byte", "part 3 of 3 but the name is of part 1 of 3"});
}

TEST(GgufSplit, Class16AShardOfAnotherCountIsRefused) {
  Split split;
  split.shards[1].u16("split.count", 4);
  split.write();
  expect_error(split.path(1), {"m-00002-of-00003.gguf: key 'split.no' (byte", "part 2 of 4"});
}

TEST(GgufSplit, Class16AWholeModelInThePlaceOfAShardIsRefused) {
  const Split split;
  split.write();
  sample().write(split.path(2));
  expect_error(split.path(1), {"m-00002-of-00003.gguf: key 'split.count' is missing or 1", "split into 3"});
}

TEST(GgufSplit, Class16ATensorInTwoShardsIsRefused) {
  Split split;
  split.shards[2].tensors()[0].name = "a";
  split.write();
  expect_error(split.path(1), {"m-00003-of-00003.gguf: tensor 'a': name", "twice", "m-00001-of-00003.gguf"});
}

TEST(GgufSplit, Class16ATotalThatIsNotTheSumIsRefused) {
  Split split;
  split.shards[0].i32("split.tensors.count", 4);
  split.write();
  expect_error(split.path(2), {"m-00001-of-00003.gguf: key 'split.tensors.count' (byte", "is 4", "hold 3"});
}

TEST(GgufSplit, Class16AMissingTotalIsRefused) {
  Split split;
  split.shards[0].remove("split.tensors.count");
  split.write();
  expect_error(split.path(1), {"m-00001-of-00003.gguf: key 'split.tensors.count' is missing"});
}

TEST(GgufSplit, Class16ANameWithoutNumbersIsRefused) {
  const Split split;
  split.write();
  for (const char* name : {"model.gguf", "-00001-of-00003.gguf", "m-0001-of-0003.gguf", "m-00001-of-00003.bin", "m-0000a-of-00003.gguf",
                           "m-00001-0f-00003.gguf", "m_00001-of-00003.gguf"}) {
    split.shards[0].write(temporary(name));
    if (std::string_view(name) == "-00001-of-00003.gguf") continue;  // a whole path has a stem; see the next test
    expect_error(temporary(name), {"key 'split.count' (byte", "is 3", "not named like"});
  }
}

TEST(GgufSplit, Class16ANameWithoutAStemIsRefusedInTheCurrentDirectory) {
  const Split split;
  split.write();
  split.shards[0].write("-00001-of-00003.gguf");
  expect_error("-00001-of-00003.gguf", {"-00001-of-00003.gguf: key 'split.count' (byte", "not named like"});
  std::filesystem::remove("-00001-of-00003.gguf");
}

TEST(GgufSplit, Class16ANameThatDisagreesWithTheKeysIsRefused) {
  const Split split;
  split.write();
  split.shards[0].write(temporary("m-00001-of-00009.gguf"));
  expect_error(temporary("m-00001-of-00009.gguf"), {"part 1 of 3 but the name is of part 1 of 9"});
}

TEST(GgufSplit, Class16ANumberBeyondTheCountIsRefused) {
  Split split;
  split.shards[0].u16("split.no", 3);
  split.write();
  expect_error(split.path(1), {"key 'split.no' (byte", "is 3 but split.count is 3"});
}

TEST(GgufSplit, Class16ANumberWithoutACountIsRefused) {
  GgufWriter writer = sample();
  writer.u16("split.no", 1).write(temporary("n.gguf"));
  expect_error(temporary("n.gguf"), {"key 'split.no' (byte", "is 1 but split.count is missing"});
  writer.u16("split.count", 1).write(temporary("n.gguf"));
  expect_error(temporary("n.gguf"), {"key 'split.no' (byte", "is 1 but split.count is 1"});
}

TEST(GgufSplit, Class16ACountWithoutANumberIsRefused) {
  Split split;
  split.shards[0].remove("split.no");
  split.write();
  expect_error(split.path(1), {"key 'split.count' (byte", "'split.no' is missing"});
}

TEST(GgufSplit, Class16AHugeOrNegativeCountIsRefused) {
  Split split;
  split.shards[0].u32("split.count", 4000000000u);
  split.write();
  expect_error(split.path(1), {"key 'split.count' (byte", "4000000000", "at most 1024"});
  split.shards[0].i16("split.count", -3);
  split.write();
  expect_error(split.path(1), {"key 'split.count' (byte", "is -3", "out of range"});
  split.shards[0].u64("split.count", ~std::uint64_t{0});
  split.write();
  expect_error(split.path(1), {"key 'split.count' (byte", "out of range"});
}

TEST(GgufSplit, Class16ACountOfAnotherTypeIsRefused) {
  Split split;
  split.shards[0].string("split.count", "../../etc/passwd");
  split.write();
  expect_error(split.path(1), {"key 'split.count' (byte", "type string", "not an integer"});
}

// Names of shards come from the path that the caller gave, never from a file: a path in a key changes
// nothing.
TEST(GgufSplit, Class16APathInAKeyIsNotFollowed) {
  Split split;
  split.shards[0].string("split.name", "../../../../etc/passwd");
  split.write();
  EXPECT_EQ(File::open(split.path(1)).shard_name(1), split.path(2));
}

TEST(GgufSplit, Class16OneShardInMemoryIsRefused) {
  const auto bytes = Split().shards[0].bytes();
  try {
    File::from_memory(bytes, "m-00001-of-00003.gguf");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_THAT(error.what(), HasSubstr("key 'split.count' (byte"));
  }
}

TEST(GgufSplit, Class16AShardThatIsTooShortIsRefused) {
  const Split split;
  split.write();
  std::filesystem::resize_file(split.path(3), std::filesystem::file_size(split.path(3)) - 1);
  expect_error(split.path(1), {"m-00003-of-00003.gguf: tensor 'c': offset (byte", "probably incomplete"});
}

}  // namespace
}  // namespace quern::test
