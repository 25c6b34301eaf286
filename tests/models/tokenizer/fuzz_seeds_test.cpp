// The committed fuzz seeds, run through the fuzz target by a normal compiler.
#include "support/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <filesystem>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace quern::test {
namespace {

TEST(TokenizerFuzzSeeds, EachVocabularyIsRefusedOrItsTextIsTokenized) {
  int seeds = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(QUERN_SOURCE_DIR "/tests/models/tokenizer/fuzz/seeds")) {
    SCOPED_TRACE(entry.path().string());
    const auto bytes = read_bytes(entry.path());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++seeds;
  }
  EXPECT_GE(seeds, 10);
}

}  // namespace
}  // namespace quern::test
