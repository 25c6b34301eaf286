// Decoding and encoding: every format against its descriptor in quern_formats.h, f16 and bf16 against exact rounding.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

#define QUERN_TEST_FORMAT(FORMAT, format, with) QUERN_##FORMAT,
constexpr quern_dtype block_formats[] = {QUERN_EACH_FORMAT(QUERN_TEST_FORMAT, )};
#undef QUERN_TEST_FORMAT

bool rounds(quern_dtype dtype) {
  const std::uint32_t formula = format_of(dtype)->formula;
  return formula == QUERN_FORMULA_OFFSET || formula == QUERN_FORMULA_SUPER_OFFSET || formula == QUERN_FORMULA_SUPER_TABLE;
}

double ulp(double x) {
  const float f = std::fabs(static_cast<float>(x));
  return static_cast<double>(std::nextafter(f, std::numeric_limits<float>::infinity())) - static_cast<double>(f);
}

void expect_decoded(const Tensor& blocks, const Tensor& floats, const std::string& what) {
  const std::vector<double> exact = meaning(blocks), got = meaning(floats);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (rounds(blocks.dtype)) ASSERT_LE(std::fabs(got[i] - exact[i]), 0.5 * ulp(exact[i]) + 1e-46) << what << " element " << i;
    else ASSERT_EQ(got[i], exact[i]) << what << " element " << i;
  }
}

TEST(Formats, CastAndGetRowsDecodeAsTheDescriptorSays) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : block_formats) {
      const Tensor blocks = random_tensor(dtype, {24, 512}, dtype), decoded = make(QUERN_F32, {24, 512}), rows = make(QUERN_F32, {24, 512});
      ASSERT_EQ(run_node(plugin, QUERN_OP_CAST, {blocks}, {decoded}).status, QUERN_OK);
      expect_decoded(blocks, decoded, family + " cast");
      std::vector<std::int32_t> all(24);
      for (int i = 0; i < 24; ++i) all[static_cast<std::size_t>(i)] = i;
      ASSERT_EQ(run_node(plugin, QUERN_OP_GET_ROWS, {blocks, ints({24}, all)}, {rows}).status, QUERN_OK);
      expect_decoded(blocks, rows, family + " get_rows");
    }
  }
}

TEST(Formats, AnIdentityMatmulGivesTheDecodedWeights) {
  for (const std::string& family : families()) {
    Plugin plugin(1, {{"force_kernel", family}});
    for (const quern_dtype dtype : block_formats) {
      const Tensor blocks = random_tensor(dtype, {9, 256}, dtype + 100), identity = make(QUERN_F32, {256, 256}),
                   y = make(QUERN_F32, {256, 9});
      for (std::size_t i = 0; i < 256; ++i)
        for (std::size_t j = 0; j < 256; ++j) identity.f32()[i * 256 + j] = i == j ? 1.0f : 0.0f;
      ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {identity, blocks}, {y}).status, QUERN_OK);
      const std::vector<double> exact = meaning(blocks);
      for (std::size_t i = 0; i < 256; ++i)
        for (std::size_t r = 0; r < 9; ++r)
          ASSERT_EQ(y.f32()[i * 9 + r], static_cast<float>(exact[r * 256 + i])) << family << " dtype " << dtype;
    }
  }
}

TEST(Formats, EncodingStaysWithinHalfAStepOfTheFormat) {
  Plugin plugin;
  // Levels of a block: the step is its range (or twice its largest magnitude) over them. Super-blocks round their scales too.
  const std::pair<quern_dtype, double> levels[] = {{QUERN_Q8_0, 254}, {QUERN_Q4_1, 15}, {QUERN_Q5_1, 31}, {QUERN_Q4_Z32, 15}};
  const Tensor x = random_tensor(QUERN_F32, {16, 256}, 21);
  for (const auto& [dtype, steps] : levels) {
    const Tensor y = make(dtype, {16, 256});
    ASSERT_EQ(run_node(plugin, QUERN_OP_CAST, {x}, {y}).status, QUERN_OK);
    const std::vector<double> from = meaning(x), to = meaning(y);
    for (std::size_t b = 0; b < from.size(); b += 32) {
      double low = from[b], high = from[b];
      for (std::size_t i = b; i < b + 32; ++i) low = std::min(low, from[i]), high = std::max(high, from[i]);
      const double range = dtype == QUERN_Q8_0 ? 2 * std::max(-low, high) : high - low;
      for (std::size_t i = b; i < b + 32; ++i)
        EXPECT_LE(std::fabs(from[i] - to[i]), (0.5 + 0x1p-6) * range / steps + 2e-3 * std::fabs(low) * 0x1p-2) << "dtype " << dtype;
    }
  }
}

TEST(Formats, EncodingThenDecodingKeepsTheShapeOfTheData) {
  Plugin plugin;
  const std::pair<quern_dtype, double> limits[] = {{QUERN_Q4_0, 0.10},    {QUERN_Q5_0, 0.05},    {QUERN_Q4_K, 0.09},
                                                   {QUERN_Q5_K, 0.045},   {QUERN_Q6_K, 0.03},    {QUERN_Q4_Z64, 0.10},
                                                   {QUERN_Q4_Z128, 0.11}, {QUERN_Q8_Z32, 0.005}, {QUERN_Q8_Z128, 0.007},
                                                   {QUERN_Q8_128, 0.007}, {QUERN_F8_128, 0.03},  {QUERN_NF4_64, 0.10},
                                                   {QUERN_FP4_64, 0.14}};
  const Tensor x = random_tensor(QUERN_F32, {16, 256}, 22);
  for (const auto& [dtype, limit] : limits) {  // root mean square error over that of the data, about step / sqrt(12)
    const Tensor y = make(dtype, {16, 256});
    ASSERT_EQ(run_node(plugin, QUERN_OP_CAST, {x}, {y}).status, QUERN_OK);
    const std::vector<double> from = meaning(x), to = meaning(y);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < from.size(); ++i) error += (from[i] - to[i]) * (from[i] - to[i]), size += from[i] * from[i];
    EXPECT_LE(std::sqrt(error / size), limit) << "dtype " << dtype;
  }
}

TEST(Formats, HalfPrecisionRoundsToNearestEvenAndKeepsNaN) {
  Plugin plugin;
  std::vector<float> values = {0.0f,          -0.0f,   1.0f,           65504.0f,       65519.9f,
                               65520.0f,      1e9f,    -1e9f,          5.9604645e-8f,  2.9802322e-8f,
                               2.9802326e-8f, 6.1e-5f, 1.00048828125f, 1.00146484375f, std::numeric_limits<float>::infinity(),
                               std::nanf("")};
  std::mt19937 generator(23);
  for (int i = 0; i < 5000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator())));
  const auto n = static_cast<std::int64_t>(values.size());
  const Tensor y = make(QUERN_F16, {n}), z = make(QUERN_BF16, {n});
  ASSERT_EQ(run_node(plugin, QUERN_OP_CAST, {of({n}, values)}, {y}).status, QUERN_OK);
  ASSERT_EQ(run_node(plugin, QUERN_OP_CAST, {of({n}, values)}, {z}).status, QUERN_OK);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half, brain;
    std::memcpy(&half, y.raw().data() + 2 * i, 2);
    std::memcpy(&brain, z.raw().data() + 2 * i, 2);
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(to_float(half)));
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16)));
      continue;
    }
    EXPECT_EQ(half, to_half(values[i])) << values[i];
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    EXPECT_EQ(brain, static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)) << values[i];
  }
}

TEST(Formats, EveryHalfDecodesExactly) {
  for (const std::string& family : families()) {
    Plugin plugin(1, {{"force_kernel", family}});
    const Tensor x = make(QUERN_F16, {1, 65536}), y = make(QUERN_F32, {1, 65536});
    for (std::uint32_t i = 0; i < 65536; ++i) std::memcpy(x.raw().data() + 2 * i, &i, 2);
    ASSERT_EQ(run_node(plugin, QUERN_OP_GET_ROWS, {x, ints({1}, {0})}, {y}).status, QUERN_OK);
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const float exact = to_float(static_cast<std::uint16_t>(i)), got = y.f32()[i];
      if (std::isnan(exact)) EXPECT_TRUE(std::isnan(got));
      else ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(exact)) << i;
    }
  }
}

TEST(GetRows, AnIndexOutOfRangeGivesZerosAndAFault) {
  Plugin plugin;
  const Tensor y = make(QUERN_F32, {3, 32});
  const Outcome outcome = run_node(plugin, QUERN_OP_GET_ROWS, {random_tensor(QUERN_Q8_0, {4, 32}, 24), ints({3}, {1, 4, -1})}, {y});
  EXPECT_EQ(outcome.status, QUERN_OK);
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  for (std::size_t i = 32; i < 96; ++i) EXPECT_EQ(y.f32()[i], 0.0f);
  EXPECT_NE(y.f32()[0], 0.0f);
}

}  // namespace
}  // namespace quern::cpu_test
