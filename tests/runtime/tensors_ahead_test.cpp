// Tensors that are made ahead of their use: order, bytes, errors, and how many there are at once.
#include "tensors_ahead.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

namespace quern::runtime {
namespace {

using Making = TensorsAhead::Making;

constexpr std::uint64_t columns = 1024, rows = 3072;  // 12 MiB of f32, of as many bytes of the file

std::byte number_of(int tensor, std::uint64_t row) { return static_cast<std::byte>(31 * static_cast<std::uint64_t>(tensor) + row); }

/// A file whose tensors are made of numbers of their own in each row.
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
      one.change = [this, i, bad](gguf::LyingPieces, std::span<std::byte> made) {
        ++made_;
        return gguf::TensorParts{rows, [=](std::uint64_t row) {
                                   if (i == bad && row % 5 == 4)
                                     throw Error(QUERN_BAD_MODEL, concat("row ", row, " of tensor ", i, " has no place"));
                                   std::ranges::fill(made.subspan(row * columns * sizeof(float), columns * sizeof(float)),
                                                     number_of(i, row));
                                 }};
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
  for (const Making making : {Making::beside_use, Making::between_uses})
    for (const std::uint32_t threads : {1u, 2u, 3u}) {
      made_ = 0;
      TensorsAhead ahead(made_of, all_of(made_of), threads, making);
      EXPECT_EQ(ahead.most_ahead(), threads == 1 ? 0u : 32u << 20);  // 84 MiB are in all
      for (int i = 0; i < tensors; ++i) {
        const std::span<const std::byte> bytes = ahead.next();
        EXPECT_LE(made_, threads == 1 ? i + 1 : i + 2) << "two of 12 MiB keep to the limit, three do not";
        if (threads > 1 && making == Making::between_uses) { EXPECT_EQ(made_, std::min(tensors, i / 2 * 2 + 2)); }
        ASSERT_EQ(bytes.size(), columns * rows * sizeof(float));
        for (std::uint64_t row = 0; row < rows; ++row) ASSERT_EQ(bytes[row * columns * sizeof(float)], number_of(i, row)) << row;
      }
      EXPECT_EQ(made_, tensors);
    }
}

TEST_F(TensorsAheadTest, NamesTheFirstRowOfTheFirstTensorThatCannotBeMade) {
  const gguf::File made_of = file(4, 2);
  for (const std::uint32_t threads : {1u, 2u, 3u}) {
    TensorsAhead ahead(made_of, all_of(made_of), threads, Making::beside_use);
    EXPECT_NO_THROW(ahead.next());
    EXPECT_NO_THROW(ahead.next());
    try {
      ahead.next();
      FAIL();
    } catch (const Error& error) { EXPECT_STREQ(error.what(), "row 4 of tensor 2 has no place"); }
  }
}

}  // namespace
}  // namespace quern::runtime
