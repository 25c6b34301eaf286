// The committed seeds of one fuzz target, run through it by a normal compiler, so that they stay valid and
// what a fuzzer once found stays fixed. A target that meets a bug aborts, so returning is the proof.
//
// Compiled once for each target, with its source and QUERN_FUZZ_SEEDS, the folder, in tests/ of the tree.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

TEST(FuzzSeeds, EveryCommittedSeedIsReadOrRefused) {
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUERN_SOURCE_DIR "/tests/" QUERN_FUZZ_SEEDS)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    ASSERT_TRUE(file.is_open());
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++seeds;
  }
  EXPECT_GE(seeds, 10);
}

}  // namespace
