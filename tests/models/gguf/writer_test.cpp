// The test support's writer: a copy of a file says the same as the file.
#include "sample.hpp"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

using gguf::File;

TEST(GgufWriter, ACopyOfAFileIsTheSameFile) {
  const auto bytes = sample().u32("general.alignment", 64).align_to(64).bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(GgufWriter::copy_of(file).bytes(), bytes);
}

TEST(GgufWriter, ACopyCanBeChangedInOnePlace) {
  const auto bytes = sample().bytes();
  const auto changed = GgufWriter::copy_of(File::from_memory(bytes, "m")).u32("llama.block_count", 3).bytes();
  EXPECT_EQ(changed.size(), bytes.size());
  EXPECT_EQ(File::from_memory(changed, "m").require_u64("llama.block_count"), 3u);
}

}  // namespace
}  // namespace quern::test
