// Matmul: accuracy against f64 for every format and instruction set, and bits that do not depend on batch or threads.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quern::cpu_test {
namespace {

constexpr quern_dtype all_weights[] = {QUERN_F32,  QUERN_F16,  QUERN_BF16, QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0,
                                       QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};

/// Every |y - r| over (2 sqrt(k) + 8) 2^-24 S, S = sum |a b|; the largest of them, which must not exceed 1.
double worst_error(const Tensor& a, const Tensor& b, const Tensor& y, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::vector<double> x = meaning(a), w = meaning(b), got = meaning(y);
  double worst = 0.0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double r = 0.0, s = 0.0;
      for (std::int64_t l = 0; l < k; ++l) {
        // The plugin computes on weights rounded to f32 once; that rounding is part of the format's meaning (half an ulp).
        const double product = x[i * k + l] * static_cast<double>(static_cast<float>(w[j * k + l]));
        r += product;
        s += std::fabs(product);
      }
      const double bound = (2 * std::sqrt(static_cast<double>(k)) + 8) * 0x1p-24 * s + 1e-45;
      const double error = std::fabs(got[i * n + j] - r) / bound;
      worst = std::isnan(error) ? 1e30 : std::max(worst, error);
    }
  return worst;
}

TEST(Matmul, StaysWithinTheRoundingBoundForEveryFormatAndInstructionSet) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : all_weights)
      for (const std::int64_t k : {256, 768, 1280})
        for (const std::int64_t m : {1, 5}) {
          const Tensor a = random_tensor(QUERN_F32, {m, k}, 1), b = random_tensor(dtype, {37, k}, 2), y = make(QUERN_F32, {m, 37});
          std::string kernel;
          const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}, {}, &kernel);
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          EXPECT_NE(kernel.find(family_of_plain_weights(family)), std::string::npos) << kernel;
          EXPECT_LE(worst_error(a, b, y, m, 37, k), 1.0) << kernel << " m " << m << " k " << k;
        }
  }
}

TEST(Matmul, TakesRowLengthsThatAreNoMultipleOfThirtyTwo) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16})
      for (const std::int64_t k : {1, 7, 16, 31, 33, 577, 600})
        for (const std::int64_t m : {1, 4, 9}) {
          const Tensor a = random_tensor(QUERN_F32, {m, k}, 3), b = random_tensor(dtype, {19, k}, 4), y = make(QUERN_F32, {m, 19});
          ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}).status, QUERN_OK);
          EXPECT_LE(worst_error(a, b, y, m, 19, k), 1.0) << family << " k " << k << " m " << m;
        }
  }
}

TEST(Matmul, GivesARowTheSameBitsForAnyNumberOfRowsAndThreads) {
  constexpr std::int64_t k = 1536, n = 75;
  for (const std::string& family : families())
    for (const quern_dtype dtype : all_weights) {
      const Tensor a = random_tensor(QUERN_F32, {64, k}, 5), b = random_tensor(dtype, {n, k}, 6);
      std::vector<float> first;
      for (const std::uint32_t threads : {1u, 2u})
        for (const std::int64_t m : {64, 1, 2, 3, 5, 8, 17}) {
          Plugin plugin(threads, {{"force_kernel", family}, {"deterministic", "1"}});
          Tensor some = make(QUERN_F32, {m, k});
          std::memcpy(some.f32().data(), a.f32().data(), some.bytes());
          const Tensor y = make(QUERN_F32, {m, n});
          ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {some, b}, {y}).status, QUERN_OK);
          if (first.empty()) first.assign(y.f32().begin(), y.f32().end());
          EXPECT_EQ(std::memcmp(first.data(), y.f32().data(), y.bytes()), 0)
              << family << " dtype " << dtype << " m " << m << " threads " << threads;
        }
    }
}

TEST(Matmul, GivesTheSameBitsUnderAvx2AndAvx512) {
  Plugin avx512(2), avx2(2, {{"force_kernel", "avx2"}});
  if (!avx512.has("avx512")) GTEST_SKIP() << "this processor has no avx512";
  for (const quern_dtype dtype : all_weights)
    for (const std::int64_t m : {1, 3, 12}) {
      const Tensor a = random_tensor(QUERN_F32, {m, 768}, 7), b = random_tensor(dtype, {50, 768}, 8);
      const Tensor y = make(QUERN_F32, {m, 50}), z = make(QUERN_F32, {m, 50});
      ASSERT_EQ(run_node(avx512, QUERN_OP_MATMUL, {a, b}, {y}).status, QUERN_OK);
      ASSERT_EQ(run_node(avx2, QUERN_OP_MATMUL, {a, b}, {z}).status, QUERN_OK);
      EXPECT_EQ(std::memcmp(y.f32().data(), z.f32().data(), y.bytes()), 0) << "dtype " << dtype << " m " << m;
    }
}

TEST(Matmul, ProductsOfManyRowsGoInBlocksUnlessTheOrderIsFixed) {
  Plugin free(2), fixed(2, {{"deterministic", "1"}}), own(2, {{"force_kernel", "avx2"}, {"deterministic", "1"}});
  const Tensor a = random_tensor(QUERN_F32, {70, 300}, 13), b = random_tensor(QUERN_F32, {130, 300}, 14),
               bias = random_tensor(QUERN_F32, {130}, 15);
  const Tensor y = make(QUERN_F32, {70, 130}), z = make(QUERN_F32, {70, 130}), w = make(QUERN_F32, {70, 130});
  std::string kernel;
  ASSERT_EQ(run_node(free, QUERN_OP_MATMUL, {a, b}, {y}, {}, &kernel).status, QUERN_OK);
  EXPECT_NE(kernel.find("matmul.blocked."), std::string::npos) << kernel;
  EXPECT_LE(worst_error(a, b, y, 70, 130, 300), 1.0);
  ASSERT_EQ(run_node(free, QUERN_OP_MATMUL, {a, b, bias}, {z}, {{QUERN_KEY_ALPHA, -1.0}}).status, QUERN_OK);
  for (std::size_t i = 0; i < 70 * 130; ++i) EXPECT_EQ(z.f32()[i], bias.f32()[i % 130] - y.f32()[i]);
  ASSERT_EQ(run_node(fixed, QUERN_OP_MATMUL, {a, b}, {z}, {}, &kernel).status, QUERN_OK);
  EXPECT_EQ(kernel.find("blocked"), std::string::npos) << kernel;
  ASSERT_EQ(run_node(own, QUERN_OP_MATMUL, {a, b}, {w}).status, QUERN_OK);
  EXPECT_EQ(std::memcmp(z.f32().data(), w.f32().data(), z.bytes()), 0);
}

TEST(Matmul, OpenBlasRunsWhereItIsForced) {
  Plugin forced(1, {{"force_kernel", "matmul.f32.openblas"}});
  if (Plugin any(1, {{"force_kernel", "openblas"}}); any.created().status != QUERN_OK) GTEST_SKIP() << any.created().text;
  const Tensor a = random_tensor(QUERN_F32, {70, 300}, 13), b = random_tensor(QUERN_F32, {130, 300}, 14), y = make(QUERN_F32, {70, 130});
  std::string kernel;
  ASSERT_EQ(run_node(forced, QUERN_OP_MATMUL, {a, b}, {y}, {}, &kernel).status, QUERN_OK);
  EXPECT_EQ(kernel, "matmul.f32.openblas");
  EXPECT_LE(worst_error(a, b, y, 70, 130, 300), 1.0);
}

/// [k, n] of [n, k].
Tensor turned(const Tensor& x, std::int64_t rows, std::int64_t columns) {
  Tensor y = make(x.dtype, {columns, rows});
  const std::size_t unit = x.bytes() / static_cast<std::size_t>(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::memcpy(y.raw().data() + static_cast<std::size_t>(c * rows + r) * unit,
                  x.raw().data() + static_cast<std::size_t>(r * columns + c) * unit, unit);
  return y;
}

TEST(Matmul, ProductsInBlocksAreAccurateForEveryTransposeDtypeAndInstructionSet) {
  struct Size {
    std::int64_t m, n, k;
  };
  // A panel and its remains, one strip and more, one block of k and more, with a part of 32 behind.
  for (const std::string& family : families())
    for (const Size& s : {Size{32, 8, 576}, Size{37, 75, 200}, Size{300, 33, 193}})
      for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16})
        for (const int transposes : {0, 1, 2, 3}) {
          Plugin plugin(2, {{"force_kernel", family}});
          const Tensor a = random_tensor(dtype, {s.m, s.k}, 21), b = random_tensor(dtype, {s.n, s.k}, 22), y = make(QUERN_F32, {s.m, s.n});
          const bool ta = (transposes & 1) != 0, tb = (transposes & 2) != 0;
          std::string kernel;
          const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL, {ta ? turned(a, s.m, s.k) : a, tb ? turned(b, s.n, s.k) : b}, {y},
                                           {{QUERN_KEY_TRANSPOSE_A, ta ? 1.0 : 0.0}, {QUERN_KEY_TRANSPOSE_B, tb ? 1.0 : 0.0}}, &kernel);
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          EXPECT_NE(kernel.find("blocked"), std::string::npos) << kernel;
          EXPECT_LE(worst_error(a, b, y, s.m, s.n, s.k), 1.0)
              << kernel << " dtype " << dtype << " transposes " << transposes << " m " << s.m;
        }
}

TEST(Matmul, TransposedBlocksGiveTheBitsOfTheirDecodedNumbers) {
  struct Size {
    std::int64_t m, n, k;
  };
  // Few rows, then panels; one block a row and more; k of one panel, and of two with a rest.
  for (const std::string& family : families())
    for (const char* deterministic : {"0", "1"})
      for (const Size& s : {Size{1, 256, 40}, Size{7, 512, 193}, Size{37, 256, 200}})
        for (const quern_dtype dtype : all_weights) {
          if (dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16) continue;
          Plugin plugin(2, {{"force_kernel", family}, {"deterministic", deterministic}});
          const Tensor a = random_tensor(QUERN_F32, {s.m, s.k}, 31), blocks = random_tensor(dtype, {s.k, s.n}, 32),
                       decoded = make(QUERN_F32, {s.k, s.n}), y = make(QUERN_F32, {s.m, s.n}), z = make(QUERN_F32, {s.m, s.n});
          ASSERT_EQ(run_node(plugin, QUERN_OP_CAST, {blocks}, {decoded}).status, QUERN_OK);
          const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL, {a, blocks}, {y}, {{QUERN_KEY_TRANSPOSE_B, 1}});
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, decoded}, {z}, {{QUERN_KEY_TRANSPOSE_B, 1}}).status, QUERN_OK);
          EXPECT_EQ(std::memcmp(y.f32().data(), z.f32().data(), y.bytes()), 0)
              << family << " dtype " << dtype << " m " << s.m << " deterministic " << deterministic;
        }
}

TEST(Matmul, ProductsInBlocksHaveTheSameBitsForAnyThreadsAndRows) {
  // More than 1,020 rows, and k long enough for slabs.
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{1100, 40, 200}, Size{1020, 32, 8448}}) {
    const Tensor a = random_tensor(QUERN_F32, {s.m, s.k}, 23), w = random_tensor(s.k % 32 == 0 ? QUERN_Q4_0 : QUERN_F32, {s.n, s.k}, 24),
                 y = make(QUERN_F32, {s.m, s.n});
    Plugin one(1);
    ASSERT_EQ(run_node(one, QUERN_OP_MATMUL, {a, w}, {y}).status, QUERN_OK);
    for (const std::uint32_t threads : {2u, 3u, 4u}) {
      Plugin several(threads);
      const Tensor z = make(QUERN_F32, {s.m, s.n});
      ASSERT_EQ(run_node(several, QUERN_OP_MATMUL, {a, w}, {z}).status, QUERN_OK);
      EXPECT_EQ(std::memcmp(y.f32().data(), z.f32().data(), y.bytes()), 0) << threads << " threads, k " << s.k;
    }
    Plugin few(2);
    const Tensor some = make(QUERN_F32, {33, s.k}), z = make(QUERN_F32, {33, s.n});
    std::memcpy(some.f32().data(), a.f32().data(), some.bytes());
    ASSERT_EQ(run_node(few, QUERN_OP_MATMUL, {some, w}, {z}).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(y.f32().data(), z.f32().data(), z.bytes()), 0) << "33 rows, k " << s.k;
  }
}

TEST(Matmul, AddsBiasAndScaledCAndAlpha) {
  Plugin plugin(2);
  const Tensor a = of({2, 3}, {1, 2, 3, 4, 5, 6}), b = of({2, 3}, {1, 0, 0, 0, 1, 1}), bias = of({2}, {10, 20}),
               c = of({2, 2}, {1, 2, 3, 4});
  const Tensor y = make(QUERN_F32, {2, 2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b, bias, c}, {y}, {{QUERN_KEY_ALPHA, 2.0}, {QUERN_KEY_BETA, 100.0}}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{2 + 10 + 100, 10 + 20 + 200, 8 + 10 + 300, 22 + 20 + 400}));
}

TEST(Matmul, AddsToTheMemoryOfCByEachKernel) {
  std::vector<std::string> kernels = families();
  if (Plugin any(1, {{"force_kernel", "openblas"}}); any.created().status == QUERN_OK) kernels.emplace_back("matmul.f32.openblas");
  for (const std::string& kernel : kernels)
    for (const std::int64_t m : {3, 70}) {
      if (m < 32 && kernel.ends_with("openblas")) continue;  // it takes many rows
      Plugin plugin(2, {{"force_kernel", kernel}});
      const Tensor a = random_tensor(QUERN_F32, {m, 300}, 33), b = random_tensor(QUERN_F32, {130, 300}, 34),
                   sum = random_tensor(QUERN_F32, {m, 130}, 35), y = make(QUERN_F32, {m, 130});
      const std::vector<float> before = sum.floats();
      ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}, {{QUERN_KEY_ALPHA, 0.5}}).status, QUERN_OK);
      ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b, absent(), sum}, {sum}, {{QUERN_KEY_ALPHA, 0.5}, {QUERN_KEY_BETA, -2.0}}).status,
                QUERN_OK);
      // (2 sqrt(k) + 8) 2^-24 S for each product, S = sum |a b| / 2 < 150, and a rounding of the sum, which is below 64.
      for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(sum.f32()[i], y.f32()[i] - 2 * before[i], 1e-3) << kernel << " m " << m;
    }
}

TEST(Matmul, ReadsTransposedOperands) {
  Plugin plugin;
  const Tensor at = of({3, 2}, {1, 4, 2, 5, 3, 6}), bt = of({3, 2}, {1, 0, 0, 1, 0, 1}), y = make(QUERN_F32, {2, 2});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {at, bt}, {y}, {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{1, 5, 4, 11}));
}

TEST(Matmul, TransposedOperandsGiveThePlainProductThroughTheLibraryToo) {
  Plugin plugin(2), fixed(2, {{"deterministic", "1"}});
  const Tensor a = random_tensor(QUERN_F32, {40, 64}, 16), b = random_tensor(QUERN_F32, {48, 64}, 17), at = make(QUERN_F32, {64, 40}),
               bt = make(QUERN_F32, {64, 48});
  for (std::size_t k = 0; k < 64; ++k) {
    for (std::size_t i = 0; i < 40; ++i) at.f32()[k * 40 + i] = a.f32()[i * 64 + k];
    for (std::size_t i = 0; i < 48; ++i) bt.f32()[k * 48 + i] = b.f32()[i * 64 + k];
  }
  for (Plugin* p : {&plugin, &fixed}) {
    const Tensor y = make(QUERN_F32, {40, 48});
    ASSERT_EQ(run_node(*p, QUERN_OP_MATMUL, {at, bt}, {y}, {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}).status, QUERN_OK);
    EXPECT_LE(worst_error(a, b, y, 40, 48, 64), 1.0);
  }
}

TEST(Matmul, RepeatsWholeGroupsOfBOverTheHeadsOfA) {
  Plugin plugin(2);
  // Four heads of a, two of b: heads 0 and 1 use b's first.
  const Tensor a = of({4, 1, 2}, {1, 1, 2, 2, 3, 3, 4, 4}), b = of({2, 1, 2}, {1, 0, 0, 10}), y = make(QUERN_F32, {4, 1, 1});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{1, 2, 30, 40}));
}

TEST(Matmul, RoundsOnceToHalfPrecision) {
  Plugin plugin(2);
  for (const quern_dtype out : {QUERN_F16, QUERN_BF16}) {
    const Tensor a = random_tensor(QUERN_F16, {7, 96}, 9), b = random_tensor(QUERN_Q8_0, {11, 96}, 10), y = make(QUERN_F32, {7, 11}),
                 z = make(out, {7, 11});
    ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}).status, QUERN_OK);
    ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {z}).status, QUERN_OK);
    const std::vector<double> exact = meaning(y), rounded = meaning(z);
    for (std::size_t i = 0; i < exact.size(); ++i)
      EXPECT_LE(std::fabs(rounded[i] - exact[i]), std::fabs(exact[i]) * (out == QUERN_F16 ? 0x1p-11 : 0x1p-8) + 3e-8);
  }
}

TEST(Matmul, ANaNInOneRowLeavesTheOthersAlone) {
  Plugin plugin(2);
  for (const std::int64_t m : {3, 20}) {
    const Tensor a = random_tensor(QUERN_F32, {m, 64}, 11), b = random_tensor(QUERN_Q4_1, {33, 64}, 12), y = make(QUERN_F32, {m, 33}),
                 z = make(QUERN_F32, {m, 33});
    ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}).status, QUERN_OK);
    a.f32()[64 + 5] = std::nanf("");
    ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {a, b}, {z}).status, QUERN_OK);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < 33; ++j) {
        const float value = z.f32()[static_cast<std::size_t>(i * 33 + j)];
        if (i == 1) EXPECT_TRUE(std::isnan(value));
        else EXPECT_EQ(value, y.f32()[static_cast<std::size_t>(i * 33 + j)]);
      }
  }
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  Plugin plugin;
  const Outcome outcome =
      run_node(plugin, QUERN_OP_MATMUL, {make(QUERN_F32, {2, 64}), make(QUERN_F32, {5, 32})}, {make(QUERN_F32, {2, 5})});
  EXPECT_EQ(outcome.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(outcome.text.find("they have one k"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace quern::cpu_test
