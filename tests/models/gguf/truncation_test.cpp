// A file that ends early at any byte, and a file with random damage.
#include "sample.hpp"
#include "walk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace quern::test {
namespace {

using gguf::File;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// The bytes go into an allocation of exactly their size, so that a sanitizer sees the first byte read beyond
// them.
TEST(GgufDamage, AFileCutAtAnyByteIsRefused) {
  const auto whole = sample().bytes();
  ASSERT_NO_THROW(File::from_memory(whole, "m"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const GgufWriter::Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    try {
      File::from_memory(part, "m");
      FAIL() << "accepted " << size << " of " << whole.size() << " bytes";
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), QUERN_BAD_MODEL) << size << ": " << error.what();
      ASSERT_THAT(error.what(), HasSubstr("byte")) << size;
      ASSERT_THAT(error.what(), AnyOf(HasSubstr("incomplete"), HasSubstr("is needed"), HasSubstr("not 'GGUF'"))) << size;
    }
  }
}

TEST(GgufDamage, AMappedFileCutAtAnyByteIsRefused) {
  const auto whole = sample().bytes();
  const auto path = temporary("cut.gguf");
  write_bytes(path, whole);
  for (std::size_t size = whole.size(); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    ASSERT_THROW(File::open(path), Error) << size;
  }
}

TEST(GgufDamage, AVocabularyCutAtAnyByteIsRefused) {
  const auto whole = GgufWriter().strings("tokens", {"a", "bc", ""}).boolean("flag", true).version(2).bytes();
  ASSERT_NO_THROW(File::from_memory(whole, "m"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const GgufWriter::Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_THROW(File::from_memory(part, "m"), Error) << size;
  }
}

TEST(GgufDamage, TwentyThousandRandomDamagesAreReadOrRefused) {
  const auto whole = sample().bytes();
  std::mt19937_64 random(20240806);  // raw output only: the distributions differ between libraries
  int refused = 0;
  constexpr int rounds = 20000;
  for (int round = 0; round < rounds; ++round) {
    auto bytes = whole;
    const auto flips = 1 + random() % 4;
    for (std::uint64_t i = 0; i < flips; ++i) bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << (random() % 8));
    try {
      walk(File::from_memory(bytes, "m"));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), QUERN_BAD_MODEL) << round << ": " << error.what();
      ++refused;
    }
  }
  // Both verdicts occur, or the damage would not be reaching the header, or only that.
  EXPECT_GT(refused, rounds / 10);
  EXPECT_LT(refused, rounds - rounds / 10);
}

}  // namespace
}  // namespace quern::test
