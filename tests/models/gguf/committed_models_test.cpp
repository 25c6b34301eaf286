// The tiny models in tests/data/gguf are what their names say, and stay small.
#include "walk.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>

namespace quern::test {
namespace {

using gguf::File;
const std::filesystem::path folder = QUERN_SOURCE_DIR "/tests/data/gguf";

struct Model {
  const char* file;
  const char* architecture;
  const char* weights;  ///< type of blk.0.attn_q.weight
  const char* has;      ///< a tensor that marks the architecture
  std::uint32_t shards;
};

const Model models[] = {
    {"micro-llama-f32.gguf", "llama", "F32", "blk.1.ffn_down.weight", 1},
    {"micro-llama-q4_0.gguf", "llama", "Q4_0", "blk.1.ffn_down.weight", 1},
    {"micro-llama-q8_0.gguf", "llama", "Q8_0", "blk.1.ffn_down.weight", 1},
    {"micro-qwen2-f16.gguf", "qwen2", "F16", "blk.1.attn_k.bias", 1},
    {"micro-qwen3-q8_0.gguf", "qwen3", "Q8_0", "blk.1.attn_q_norm.weight", 1},
    {"micro-split-00001-of-00002.gguf", "llama", "Q8_0", "blk.1.ffn_down.weight", 2},
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.file; }

class CommittedModel : public ::testing::TestWithParam<Model> {};

TEST_P(CommittedModel, IsWhatItsNameSays) {
  const Model& model = GetParam();
  const File file = File::open(folder / model.file);
  EXPECT_EQ(file.require_string("general.architecture"), model.architecture);
  EXPECT_EQ(gguf::type_name(file.require_tensor("blk.0.attn_q.weight").dtype), model.weights);
  EXPECT_NE(file.find_tensor(model.has), nullptr);
  EXPECT_EQ(file.shard_count(), model.shards);
  EXPECT_EQ(file.require_u64(std::string(model.architecture) + ".block_count"), 2u);
  EXPECT_EQ(file.require_strings("tokenizer.ggml.tokens").size(), file.require_floats("tokenizer.ggml.scores").size());
  EXPECT_FALSE(file.require_string("tokenizer.chat_template").empty());
  EXPECT_GT(walk(file), 0u);
}

TEST_P(CommittedModel, HasNoTwoEqualMatrices) {
  const File file = File::open(folder / GetParam().file);
  std::set<std::string> seen;
  for (const auto& tensor : file.tensors()) {
    if (tensor.n_dims < 2) continue;
    const auto data = file.data(tensor);
    EXPECT_TRUE(seen.emplace(reinterpret_cast<const char*>(data.data()), data.size()).second) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, CommittedModel, ::testing::ValuesIn(models), [](const auto& row) {
  std::string name = row.param.file;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST(CommittedModels, AreSmall) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) EXPECT_LT(entry.file_size(), 384 * 1024u) << entry.path();
}

}  // namespace
}  // namespace quern::test
