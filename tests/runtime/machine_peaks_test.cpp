// What the bench measures its shares by.
#include "machine_peaks.hpp"

#include "model.hpp"
#include "quern/models/gguf.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

namespace quern::runtime {
namespace {

/// The CPU backend multiplies bf16 in pairs where they are faster: against f32's peak its prompts came to 170 %, and the bench refused them.
TEST(MachinePeaks, OfBf16AreOfPairsWhereTheyAreFaster) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this processor has no AVX-512 BF16";
  const double f32 = multiply_add_peak(1, Arithmetic::f32), bf16 = multiply_add_peak(1, Arithmetic::bf16);
  EXPECT_GE(bf16, (__builtin_cpu_is("amd") ? 1.4 : 0.7) * f32);  // twice, or the same; other work on the machine may slow either
#else
  GTEST_SKIP() << "of processors with AVX-512 BF16";
#endif
}

/// The peaks are of the model's own format, which is told as a dtype: files spell it "BF16", dtypes "bf16".
TEST(MachinePeaks, TheFormatOfAModelIsThatOfMostElements) {
  const std::filesystem::path folder = std::filesystem::path(QUERN_SOURCE_DIR) / "tests/data/gguf";
  for (const auto& [name, dtype] : {std::pair{"micro-llama-q8_0.gguf", QUERN_Q8_0}, {"micro-qwen2-f16.gguf", QUERN_F16}}) {
    const gguf::File file = gguf::File::open(folder / name);
    const gguf::TensorInfo* most = of_most_used_format(file);
    ASSERT_NE(most, nullptr) << name;
    EXPECT_EQ(most->dtype, dtype) << name;
  }
}

}  // namespace
}  // namespace quern::runtime
