// What the bench measures its shares by.
#include "machine_peaks.hpp"

#include "model.hpp"
#include "quern/graph/error.hpp"
#include "quern/models/gguf.hpp"
#include "quern/quern_sanitizer.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace quern::runtime {
namespace {

/// The CPU backend multiplies bf16 in pairs where they are faster: against f32's peak its prompts came to 170 %, and the bench refused them.
TEST(MachinePeaks, OfBf16AreOfPairsWhereTheyAreFaster) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this processor has no AVX-512 BF16";
  // Twice, or the same. Other work on the machine may slow either: each counts as fast as it ever was, and a slow way stays slow.
  const double least = __builtin_cpu_is("amd") ? 1.4 : 0.7;
  double f32 = 0, bf16 = 0;
  for (int i = 0; i < 20 && (i == 0 || bf16 < least * f32); ++i) {
    f32 = std::max(f32, multiply_add_peak(1, Arithmetic::f32));
    bf16 = std::max(bf16, multiply_add_peak(1, Arithmetic::bf16));
  }
  EXPECT_GE(bf16, least * f32);
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

/// Room for a few threads' stacks and no more. In a process of its own; ends with 0 where the measurement says so.
[[noreturn]] void measure_with_few_threads() {
  unsigned long long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit few{pages * 4096 + (40u << 20), RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &few) != 0) std::exit(2);
  try {
    multiply_add_peak(1000, Arithmetic::f32);
  } catch (const Error& error) {
    const std::string words = error.what();
    std::fputs(words.c_str(), stderr);
    std::exit(error.code() == QUERN_HOST_OUT_OF_MEMORY && words.find("by 1000 threads, and after 0 ") == std::string::npos ? 0 : 3);
  }
  std::exit(4);
}

TEST(MachinePeaksDeathTest, MoreThreadsThanTheSystemGivesAreAnError) {
  if (QUERN_SANITIZER != 0) GTEST_SKIP() << "a sanitizer's own memory is beyond any limit of addresses";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(measure_with_few_threads(), testing::ExitedWithCode(0),
              "was to be measured by 1000 threads, and after [0-9]+ the system gave no more .*--threads");
}

}  // namespace
}  // namespace quern::runtime
