// Importance matrices: both kinds of files, sums, and hostile bytes.
#include "quern/models/importance.hpp"

#include "support/gguf_writer.hpp"
#include "support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

namespace quern::test {
namespace {

using quantize::Importance;

Importance sample() {
  Importance made;
  made.entries["blk.0.ffn_down.weight"] = {{1, 2, 3, 4}, {8}};
  made.entries["blk.0.ffn_up_exps.weight"] = {{1, 2, 3, 4, 5, 6}, {2, 0, 4}};
  made.datasets = {"a.txt"};
  made.chunks = 3;
  made.chunk_tokens = 512;
  return made;
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string word(std::int32_t number) { return std::string(reinterpret_cast<const char*>(&number), 4); }
std::string word(float number) { return std::string(reinterpret_cast<const char*>(&number), 4); }

std::string dat() { return word(1) + word(3) + "a.w" + word(4) + word(2) + word(8.0f) + word(2.0f) + word(4) + word(5) + "x.txt"; }

quern_status refusal(const std::string& path, std::string& text) {
  try {
    Importance::read(path);
  } catch (const Error& error) {
    text = error.what();
    return error.code();
  }
  return QUERN_OK;
}

TEST(Importance, AFileHasWhatWasWritten) {
  const ScratchFolder folder;
  sample().write(folder.path("m"));
  const Importance read = Importance::read(folder.path("m"));
  ASSERT_EQ(read.entries.size(), 2u);
  EXPECT_EQ(read.entries.at("blk.0.ffn_up_exps.weight").sums, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read.entries.at("blk.0.ffn_up_exps.weight").counts, (std::vector<double>{2, 0, 4}));
  EXPECT_EQ(read.datasets, std::vector<std::string>{"a.txt"});
  EXPECT_EQ(read.chunks, 3u);
  EXPECT_EQ(read.chunk_tokens, 512u);
}

TEST(Importance, WeightsAreMeansAndEqualWhereNothingWasSeen) {
  const Importance m = sample();
  EXPECT_EQ(m.weights("blk.0.ffn_down.weight", 4, 1), (std::vector<float>{0.125f, 0.25f, 0.375f, 0.5f}));
  EXPECT_EQ(m.weights("blk.0.ffn_up_exps.weight", 2, 3), (std::vector<float>{0.5f, 1, 1, 1, 1.25f, 1.5f}));
  EXPECT_TRUE(m.weights("output.weight", 4, 1).empty());
  EXPECT_THROW(m.weights("blk.0.ffn_down.weight", 2, 1), Error);
  EXPECT_THROW(m.weights("blk.0.ffn_up_exps.weight", 3, 2), Error);
}

TEST(Importance, FilesAdd) {
  Importance m = sample(), other = sample();
  other.entries.erase("blk.0.ffn_up_exps.weight");
  other.entries["blk.1.attn_q.weight"] = {{7}, {1}};
  other.datasets = {"b.txt", "a.txt"};
  m.add(other);
  EXPECT_EQ(m.entries.at("blk.0.ffn_down.weight").sums, (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(m.entries.at("blk.0.ffn_down.weight").counts, std::vector<double>{16});
  EXPECT_EQ(m.entries.at("blk.1.attn_q.weight").sums, std::vector<double>{7});
  EXPECT_EQ(m.datasets, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(m.chunks, 6u);
  other.entries["blk.0.ffn_down.weight"] = {{1}, {1}};
  EXPECT_THROW(m.add(other), Error);
  Importance large;
  large.entries["a"] = {{3e38}, {1}};
  EXPECT_THROW(large.add(Importance(large)), Error);
}

TEST(Importance, OlderFilesHaveTheirSumsByChunks) {
  const ScratchFolder folder;
  write(folder.path("m.dat"), dat());
  const Importance read = Importance::read(folder.path("m.dat"));
  EXPECT_EQ(read.weights("a.w", 2, 1), (std::vector<float>{2, 0.5f}));
  EXPECT_EQ(read.chunks, 4u);
  EXPECT_EQ(read.datasets, std::vector<std::string>{"x.txt"});
}

TEST(Importance, OlderFilesAreRefusedAtEveryCut) {
  const ScratchFolder folder;
  const std::string whole = dat(), path = folder.path("m.dat");
  const std::size_t end_of_entries = 4 + 4 + 3 + 4 + 4 + 8;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(path, whole.substr(0, size));
    std::string text;
    const bool sound = size == end_of_entries || size == end_of_entries + 4;  // what stands behind the entries may lack
    EXPECT_EQ(refusal(path, text), sound ? QUERN_OK : QUERN_BAD_MODEL) << size;
    EXPECT_TRUE(sound || text.find(path) != std::string::npos) << text;
  }
}

TEST(Importance, HostileNumbersAreRefusedByName) {
  const ScratchFolder folder;
  const std::string path = folder.path("m");
  const std::pair<std::string, std::string> cases[] = {
      {word(-1), "entries"},
      {word(1 << 30), "entries"},
      {word(1) + word(1 << 30) + word(0) + word(0), "length of a name"},
      {word(1) + word(1) + "a" + word(1) + word(1 << 29) + word(1.0f), "number of sums"},
      {word(1) + word(1) + "a" + word(-1) + word(1) + word(1.0f), "number of chunks"},
      {word(1) + word(1) + "a" + word(1) + word(1) + word(-1.0f), "-1"},
      {word(2) + word(1) + "a" + word(1) + word(1) + word(1.0f) + word(1) + "a" + word(1) + word(1) + word(1.0f), "twice"},
      {word(65537) + std::string(12 * 65537, '\0'), "at most 65536"},
      {word(1) + word(1) + "a" + word(0) + word(1) + word(3e38f), "must fit f32"},  // in chunks of 512 tokens
      {word(1) + word(241) + std::string(241, 'a') + word(1) + word(1) + word(1.0f), "has 241 bytes; at most 240"},
  };
  for (const auto& [bytes, named] : cases) {
    write(path, bytes);
    std::string text;
    EXPECT_EQ(refusal(path, text), QUERN_BAD_MODEL) << named;
    EXPECT_NE(text.find(named), std::string::npos) << text;
  }
}

TEST(Importance, GgufFilesThatAreNoneAreRefusedByName) {
  const ScratchFolder folder;
  const std::string path = folder.path("m");
  const auto good = [] {
    GgufWriter writer;
    writer.string("general.type", "imatrix");
    writer.tensor_f32("a.in_sum2", {2, 1}, {1, 2});
    writer.tensor_f32("a.counts", {1, 1}, {1});
    return writer;
  };
  good().write(path);
  std::string text;
  ASSERT_EQ(refusal(path, text), QUERN_OK) << text;
  const std::pair<GgufWriter, std::string> cases[] = {
      {good().string("general.type", "model"), "general.type"},
      {good().remove_tensor("a.counts"), "a.counts"},
      {good().remove_tensor("a.in_sum2"), ".in_sum2"},
      {good().remove_tensor("a.counts").tensor_f32("a.counts", {3}, {1, 1, 1}), "matrices"},
      {good().remove_tensor("a.in_sum2").tensor_f32("a.in_sum2", {2, 1}, {1, NAN}), "nan"},
      {good().remove_tensor("a.counts").tensor_f32("a.counts", {1, 1}, {1e-39f}), "must fit f32"},
      {good().u64("imatrix.chunk_count", std::uint64_t{1} << 40), "imatrix.chunk_count"},
  };
  for (const auto& [writer, named] : cases) {
    writer.write(path);
    EXPECT_EQ(refusal(path, text), QUERN_BAD_MODEL) << named;
    EXPECT_NE(text.find(named), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace quern::test
