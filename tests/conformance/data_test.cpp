// Numbers, formats and layouts of the suite, against facts that do not come from its own code.
#include "case_table/layout.hpp"
#include "data/block_format.hpp"
#include "data/data_kind.hpp"
#include "data/float_codes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::conformance {
namespace {

TEST(FloatCodes, EveryF16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double x = f16_value(static_cast<std::uint16_t>(bits));
    EXPECT_TRUE(std::isnan(x) ? std::isnan(f16_value(f16_bits(x))) : f16_bits(x) == bits) << bits;
  }
}

TEST(FloatCodes, EveryBf16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double x = bf16_value(static_cast<std::uint16_t>(bits));
    EXPECT_TRUE(std::isnan(x) ? std::isnan(bf16_value(bf16_bits(x))) : bf16_bits(x) == bits) << bits;
  }
}

TEST(FloatCodes, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(f16_bits(1.0), 0x3c00);
  EXPECT_EQ(f16_bits(1.0 + 0x1p-11), 0x3c00);  // a tie, to even
  EXPECT_EQ(f16_bits(1.0 + 3 * 0x1p-11), 0x3c02);
  EXPECT_EQ(f16_bits(65519.9), 0x7bff);
  EXPECT_EQ(f16_bits(65520.0), 0x7c00);
  EXPECT_EQ(f16_bits(-0x1p-25), 0x8000);  // half the least subnormal, to even
  EXPECT_EQ(f16_bits(0x1.8p-25), 0x0001);
  EXPECT_EQ(bf16_bits(1.0 + 0x1p-8), 0x3f80);
  EXPECT_EQ(bf16_bits(-3.3895313892515355e38), 0xff7f);
}

TEST(BlockFormat, Q4_0ReadsNibblesBelowAndAboveAndTheBias) {
  std::byte block[18] = {};
  block[1] = std::byte{0x40};  // scale 2.0
  block[2] = std::byte{0x9f};  // element 0: 15, element 16: 9
  double out[32];
  BlockFormat::find(QUERN_Q4_0)->read(block, 0, 32, out);
  EXPECT_EQ(out[0], 14.0);
  EXPECT_EQ(out[16], 2.0);
  EXPECT_EQ(out[1], -16.0);
}

TEST(BlockFormat, Q4_KTakesScaleAndMinOfTheSixBitPieces) {
  std::byte block[144] = {};
  block[1] = std::byte{0x3c};             // super scale 1
  block[3] = std::byte{0x38};             // super min 0.5
  block[4] = std::byte{0x07};             // scale of group 0
  block[8] = std::byte{0x03};             // min of group 0
  block[5 + 3] = std::byte{0x03 | 0xc0};  // its upper bits belong to the min of group 4
  block[4 + 8] = std::byte{0x21};         // group 4: scale low 1, min low 2
  block[16] = std::byte{0x05};            // element 0: code 5
  double out[256];
  BlockFormat::find(QUERN_Q4_K)->read(block, 0, 256, out);
  EXPECT_EQ(out[0], 7 * 5 - 0.5 * 3);
  EXPECT_EQ(out[128], -0.5 * (2 + 48));  // min 2 + 3 * 16, code 0
  double size = 0;
  Tensor(QUERN_Q4_K, {256}, block).read_sized(0, 1, out, &size);
  EXPECT_EQ(out[0], 7 * 5 - 0.5 * 3);
  EXPECT_EQ(size, 7 * 5 + 0.5 * 3);
}

TEST(BlockFormat, TheSizeOfAWeightIsThatOfItsPartsWhereItHasAMinimum) {
  for (const quern_format& descriptor : quern_formats) {
    const bool parts = descriptor.id == QUERN_Q4_1 || descriptor.id == QUERN_Q5_1 || descriptor.id == QUERN_Q4_K ||
                       descriptor.id == QUERN_Q5_K;
    EXPECT_EQ(has_minimums(descriptor.id), parts) << descriptor.name.data;
    const Tensor t(descriptor.id, {16, descriptor.block_elements});
    fill(t, DataKind::gaussian, CounterRandom::of("parts"));
    std::vector<double> values(static_cast<std::size_t>(t.count())), sizes(values.size());
    t.read_sized(0, t.count(), values.data(), sizes.data());
    EXPECT_EQ(values, t.values()) << descriptor.name.data;
    std::size_t larger = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_GE(sizes[i], std::fabs(values[i]));
      larger += sizes[i] > std::fabs(values[i]);
    }
    EXPECT_EQ(larger > 0, parts) << descriptor.name.data;
  }
}

TEST(BlockFormat, RandomBlocksHoldEveryCodeAndFiniteValues) {
  for (const quern_format& descriptor : quern_formats) {
    const Tensor t(descriptor.id, {64, 4 * descriptor.block_elements});
    for (const DataKind kind : {DataKind::gaussian, DataKind::positive, DataKind::specials, DataKind::integers}) {
      fill(t, kind, CounterRandom::of("blocks"));
      double low = 0, high = 0;
      for (const double v : t.values()) {
        ASSERT_TRUE(std::isfinite(v));
        ASSERT_TRUE(kind != DataKind::positive || v >= 0.0) << descriptor.name.data << " " << v;
        ASSERT_TRUE(kind != DataKind::integers || v == std::nearbyint(v)) << descriptor.name.data << " " << v;
        low = std::min(low, v);
        high = std::max(high, v);
      }
      EXPECT_GT(high, 0.0);
      EXPECT_TRUE(kind != DataKind::gaussian || low < 0.0);
    }
  }
}

TEST(CounterRandom, DependsOnNameAndIndexAlone) {
  const CounterRandom a = CounterRandom::of("matmul.x"), b = CounterRandom::of("matmul.x"), c = CounterRandom::of("matmul.y");
  EXPECT_EQ(a.bits(7), b.bits(7));
  EXPECT_NE(a.bits(7), c.bits(7));
  EXPECT_NE(a.bits(7), a.stream(0).bits(7));
}

TEST(CounterRandom, GaussiansHaveMeanZeroAndDeviationOne) {
  const CounterRandom random = CounterRandom::of("gaussian");
  double sum = 0, squares = 0;
  constexpr std::uint64_t n = 100000;
  for (std::uint64_t i = 0; i < n; ++i) sum += random.gaussian(i), squares += random.gaussian(i) * random.gaussian(i);
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));  // five deviations of the mean
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
}

TEST(DataKind, OneHotHasOneOneInEachRow) {
  const Tensor t(QUERN_F32, {9, 31});
  fill(t, DataKind::one_hot, CounterRandom::of("x"));
  const std::vector<double> v = t.values();
  for (std::size_t row = 0; row < 9; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 31; ++i) sum += v[row * 31 + i];
    EXPECT_EQ(sum, 1.0);
  }
}

TEST(DataKind, AHugeTensorRepeatsAPrimeNumberOfElements) {
  constexpr std::int64_t n = 3 * 1048573 + 100;
  const Tensor t(QUERN_F16, {n});
  fill(t, DataKind::gaussian, CounterRandom::of("huge"));
  for (const std::int64_t i : {0, 57, 99}) {
    EXPECT_EQ(t.at(i), t.at(1048573 + i));
    EXPECT_EQ(t.at(i), t.at(3 * 1048573 + i));
  }
  EXPECT_NE(t.at(0), t.at(1048576));
}

TEST(Placement, ScatterAndGatherAreInverse) {
  const Dims dims = {3, 4, 5};
  for (const Layout& layout : {Layout{}, rows_apart(3), ordered({2, 0, 1}), ordered({1, 0, 2})}) {
    const Placement place(QUERN_F32, dims, layout);
    std::vector<std::byte> packed(240), memory(place.bytes(), std::byte{0xff}), back(240);
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(i);
    place.scatter(packed, memory);
    place.gather(memory, back);
    EXPECT_EQ(packed, back) << layout.name();
    const std::vector<bool> covered = place.covered();
    EXPECT_EQ(std::count(covered.begin(), covered.end(), true), 240) << layout.name();
  }
}

TEST(Placement, StridesAreThoseOfTheMemoryOrder) {
  const Placement place(QUERN_F16, {3, 4, 5}, ordered({2, 0, 1}));  // dimension 2 outermost, then 0, then 1
  EXPECT_EQ(place.strides(), (std::vector<std::int64_t>{8, 2, 24}));
  EXPECT_EQ(Placement(QUERN_F32, {3, 5}, rows_apart(2)).strides(), (std::vector<std::int64_t>{28, 4}));
  EXPECT_EQ(Placement(QUERN_F32, {3, 5}, rows_apart(2)).bytes(), 2u * 28 + 20);
}

}  // namespace
}  // namespace quern::conformance
