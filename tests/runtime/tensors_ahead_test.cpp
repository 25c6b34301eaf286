// Tensors that are made ahead of their use: order, bytes, errors, and how many there are at once.
#include "tensors_ahead.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace quern::runtime {
namespace {

constexpr std::uint64_t columns = 1024, rows = 3072;  // 12 MiB of f32, of as many bytes of the file

/// A file whose tensor i is made of the number i.
class TensorsAheadTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("quern-tensors-ahead-" + std::to_string(getpid()))).string();
    std::ofstream(path_) << std::string(64, 'x');
  }
  void TearDown() override { std::filesystem::remove(path_); }

  gguf::File file(int tensors, int bad = -1) {
    gguf::Writer keys;
    keys.string("general.architecture", "llama");
    gguf::Assembly parts{path_, keys.bytes_of_keys(), {path_}, {}, {}};
    for (int i = 0; i < tensors; ++i) {
      gguf::AssembledTensor& one = parts.tensors.emplace_back();
      one.tensor.name = "tensor." + std::to_string(i);
      one.tensor.n_dims = 2;
      one.tensor.dims[0] = columns;
      one.tensor.dims[1] = rows;
      one.tensor.dtype = QUERN_F32;
      one.lying_bytes = 16;
      one.change = [this, i, bad](gguf::LyingPieces) {
        if (i == bad) throw Error(QUERN_BAD_MODEL, "no place");
        ++made_;
        return std::vector<std::byte>(columns * rows * sizeof(float), static_cast<std::byte>(i));
      };
    }
    return gguf::File::assemble(std::move(parts));
  }
  static std::vector<const gguf::TensorInfo*> all_of(const gguf::File& file) {
    std::vector<const gguf::TensorInfo*> all;
    for (const gguf::TensorInfo& tensor : file.tensors()) all.push_back(&tensor);
    return all;
  }

  std::string path_;
  std::atomic<int> made_{0};
};

TEST_F(TensorsAheadTest, GivesEachInItsOrderAndMakesNoMoreAtOnceThanItMayHold) {
  constexpr int tensors = 7;
  const gguf::File made_of = file(tensors);
  for (const std::uint32_t threads : {1u, 4u}) {
    TensorsAhead ahead(made_of, all_of(made_of), threads);
    EXPECT_EQ(ahead.most_ahead(), threads == 1 ? 0u : 32u << 20);  // 84 MiB are in all
    made_ = 0;
    for (int i = 0; i < tensors; ++i) {
      const gguf::TensorBytes bytes = ahead.next();
      EXPECT_LE(made_, threads == 1 ? i + 1 : i / 2 * 2 + 2) << "two of 12 MiB keep to the limit, three do not";
      ASSERT_EQ(bytes.bytes().size(), columns * rows * sizeof(float));
      EXPECT_EQ(bytes.bytes().front(), static_cast<std::byte>(i));
      EXPECT_EQ(bytes.bytes().back(), static_cast<std::byte>(i));
    }
    EXPECT_EQ(made_, tensors);
  }
}

TEST_F(TensorsAheadTest, ThrowsWhatMakingOneThrows) {
  const gguf::File made_of = file(4, 3);
  TensorsAhead ahead(made_of, all_of(made_of), 4);
  EXPECT_NO_THROW(ahead.next());
  EXPECT_NO_THROW(ahead.next());
  EXPECT_THROW(ahead.next(), Error);
}

}  // namespace
}  // namespace quern::runtime
