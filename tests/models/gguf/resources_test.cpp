// Memory and time: class 15 of the corpus, and the resident pages of a large model.
#include "resources.hpp"
#include "sample.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace quern::test {
namespace {

using gguf::File;
constexpr std::uint64_t mib = 1 << 20;

/// Opens the bytes from a file; whether it is accepted does not matter here.
Cost cost_of_opening(const GgufWriter& writer, std::uint64_t& file_bytes) {
  const auto path = temporary("m.gguf");
  writer.write(path);
  file_bytes = std::filesystem::file_size(path);
  return cost_of([&] {
    try {
      File::open(path);
    } catch (const Error&) {}
  });
}

void expect_bounded(const GgufWriter& writer) {
  std::uint64_t file_bytes = 0;
  const Cost cost = cost_of_opening(writer, file_bytes);
  EXPECT_LE(cost.peak_bytes, file_bytes + 64 * mib);
  EXPECT_LT(cost.processor_seconds, under_sanitizer() ? 10.0 : 2.0);
}

TEST(GgufResources, Class15ASmallFileThatClaimsMuchCostsLittle) {
  expect_bounded(sample().declare_keys(~std::uint64_t{0} >> 1));
  expect_bounded(sample().declare_tensors(65536));
  expect_bounded(sample().raw_array("tokenizer.ggml.tokens", 8, std::uint64_t{1} << 40, GgufWriter::Bytes(100)));
  expect_bounded(sample().tensor("huge", {std::uint64_t{1} << 50}, 0, GgufWriter::Bytes(4)));
}

TEST(GgufResources, Class15AsManyKeysAndTensorsAsAreReadStayWithinTheBound) {
  GgufWriter writer;
  for (int i = 0; i < 65536; ++i) {
    GgufWriter::Key key{"key." + std::to_string(i), 0, GgufWriter::Bytes(1), {}};
    writer.keys().push_back(std::move(key));
    std::string name = std::string(250, 'n') + std::to_string(i);
    writer.tensor(std::move(name), {1}, 0, GgufWriter::Bytes(4));
  }
  std::uint64_t file_bytes = 0;
  const Cost cost = cost_of_opening(writer, file_bytes);
  if (!under_sanitizer()) {
    EXPECT_LE(cost.peak_bytes, file_bytes + 64 * mib);
    EXPECT_LT(cost.processor_seconds, 2.0);
  }
  EXPECT_EQ(File::open(temporary("m.gguf")).tensors().size(), 65536u);
}

TEST(GgufResources, Class15ManyEmptyStringsAreSkippedInAMoment) {
  constexpr std::uint64_t count = 4000000;
  GgufWriter writer;
  writer.raw_array("strings", 8, count, GgufWriter::Bytes(8 * count));
  expect_bounded(writer);
}

TEST(GgufResources, DroppingATensorsPagesFreesThem) {
  constexpr std::uint64_t bytes = 48 * mib;
  const auto path = temporary("large.gguf");
  GgufWriter().tensor("t", {bytes / 4}, 0, {}).write(path);
  std::filesystem::resize_file(path, 64 + 32 * 3 + bytes);  // zeros; the header is shorter than the padding
  const File file = File::open(path);
  const auto& tensor = file.tensors()[0];
  const std::uint64_t before = resident_file_bytes();
  unsigned sum = 0;
  for (std::uint64_t i = 0; i < tensor.bytes; i += 4096) sum += std::to_integer<unsigned>(file.data(tensor)[i]);
  EXPECT_EQ(sum, 0u);
  const std::uint64_t touched = resident_file_bytes();
  ASSERT_GE(touched, before + bytes / 10 * 9);
  file.drop_pages(tensor);
  EXPECT_LE(resident_file_bytes(), before + mib);
}

}  // namespace
}  // namespace quern::test
