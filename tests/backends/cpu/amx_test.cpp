// AMX's kernels against those of AVX-512 VNNI, to the bit: by the instructions where this processor has them, and by an emulation where
// it has AVX-512 VNNI: compiled in (backend_cpu_emulated_amx_test), or of the instructions themselves (backend_cpu_trapped_amx_test).
#include "packed_case.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace quern::cpu {
namespace {

using namespace packed_case;

#ifdef QUERN_TRAPPED_TILES
constexpr bool trapped = true;  // a signal an instruction: fewer cases
#else
constexpr bool trapped = false;
#endif

std::vector<Case> tile_layouts() {
  std::vector<Case> cases = runnable_layouts();
  std::erase_if(cases, [](const Case& c) { return c.set != &packed_set_avx512_amx(); });
  return cases;
}

class Tiles : public testing::TestWithParam<Case> {
 protected:
  const PackedLayout& tiles() const { return *GetParam().layout; }
  const PackedLayout& vectors() const {
    for (const PackedLayout& layout : packed_set_avx512_vnni().layouts)
      if (layout.format == tiles().format) return layout;
    return tiles();
  }

  /// Products of `tokens` by both sets, all at once.
  void expect_same_bits(const Weights& w, Tokens& tokens, std::int64_t panels_a_call) {
    Panels panels = pack(tiles(), w);
    const std::int64_t stride = w.rows + 3;
    const std::vector<float> expected = multiply(vectors(), panels, w.rows, tokens, tokens.count, panels_a_call, stride);
    const std::vector<float> y = multiply(tiles(), panels, w.rows, tokens, tokens.count, panels_a_call, stride);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << y[i] << " for " << expected[i] << ": k " << w.k << ", " << tokens.count << " tokens, token "
          << i / static_cast<std::size_t>(stride) << ", row " << i % static_cast<std::size_t>(stride) << " of " << w.rows;
  }
};

TEST_P(Tiles, AreOfTheSamePanels) {
  EXPECT_STREQ(tiles().key, vectors().key);
  EXPECT_EQ(tiles().pack, vectors().pack);
  EXPECT_EQ(tiles().panel_bytes, vectors().panel_bytes);
  EXPECT_EQ(tiles().activations, vectors().activations);
  EXPECT_EQ(GetParam().set->quantise, packed_set_avx512_vnni().quantise);
  EXPECT_NE(tiles().multiply, vectors().multiply);
}

TEST_P(Tiles, GiveTheBitsOfVectorsForAnyNumberOfTokens) {
  const std::int64_t k = tiles().k_multiple == 32 ? 160 : 512, rows = 21;
  const Weights w = random_weights(tiles().format, rows, k, Scales::similar, 1);
  for (std::int64_t count = 1; count <= 300; count += count < 70 ? (trapped ? 5 : 1) : 23) {
    Tokens tokens = quantised(GetParam(), random_activations(count * k, static_cast<std::uint32_t>(count)), count, k);
    expect_same_bits(w, tokens, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Tiles, GiveTheBitsOfVectorsForAnyRowsAndDepth) {
  const std::vector<std::int64_t> depths = tiles().k_multiple == 32 ? std::vector<std::int64_t>{32, 64, 96, 128, 224, 256, 288, 576}
                                                                    : std::vector<std::int64_t>{256, 768, 2048};
  for (const std::int64_t k : depths)
    for (const std::int64_t rows : trapped ? std::vector<std::int64_t>{31} : std::vector<std::int64_t>{1, 16, 31, 48, 9 * 16 + 5, 16 * 16})
      for (const std::int64_t count : {33, 61}) {
        const Weights w = random_weights(tiles().format, rows, k, Scales::similar, static_cast<std::uint32_t>(k + rows));
        Tokens tokens = quantised(GetParam(), random_activations(count * k, 2), count, k);
        expect_same_bits(w, tokens, (rows + 15) / 16);
        if (HasFatalFailure()) return;
      }
}

/// More than a block of tokens and a group of panels, and several parts of k.
TEST_P(Tiles, GiveTheBitsOfVectorsInBlocksAndGroups) {
  const std::int64_t k = trapped ? 512 : 1024, rows = (trapped ? 9 : 11) * 16 - 3;
  const Weights w = random_weights(tiles().format, rows, k, Scales::similar, 3);
  for (const std::int64_t count : trapped ? std::vector<std::int64_t>{257} : std::vector<std::int64_t>{257, 300, 513}) {
    Tokens tokens = quantised(GetParam(), random_activations(count * k, 4), count, k);
    expect_same_bits(w, tokens, 11);
    if (HasFatalFailure()) return;
  }
}

/// Scales of zero, subnormal and near the largest, and activations whose products with them are subnormal.
TEST_P(Tiles, GiveTheBitsOfVectorsForScalesOfAllSizes) {
  const std::int64_t k = 512, rows = 37, count = 40;
  const Weights w = random_weights(tiles().format, rows, k, Scales::extreme, 5);
  std::vector<float> x = random_activations(count * k, 6);
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t i = 0; i < k; ++i) x[static_cast<std::size_t>(t * k + i)] *= std::ldexp(1.0f, static_cast<int>(t * 8 - 140));
  Tokens tokens = quantised(GetParam(), x, count, k);
  expect_same_bits(w, tokens, 3);
}

TEST_P(Tiles, GiveTheBitsOfVectorsForTheLargestCodesAndActivations) {
  const std::int64_t k = 512, rows = 16, count = 96;
  for (const int code : {0x00, 0xff, 0x80, 0x7f, 0xf0, 0x0f}) {
    Weights w = random_weights(tiles().format, rows, k, Scales::similar, 7);
    const std::int64_t unit = unit_bytes(tiles().format);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t u = 0; u < k / unit_elements(tiles().format); ++u) {
        std::byte* block = w.bytes.data() + r * w.stride + u * unit;
        std::memset(block, code, static_cast<std::size_t>(unit));
        set_scales(tiles().format, block, [] { return float_to_half(0.01f); });
      }
    std::vector<float> x;
    for (std::int64_t t = 0; t < count; ++t)
      for (std::int64_t i = 0; i < k; ++i) {
        const bool positive[] = {true, false, i % 2 != 0, i % 32 < 16, i % 64 < 32, i % 256 < 128};
        x.push_back(positive[t * 6 / count] ? 127.0f : -127.0f);
      }
    Tokens tokens = quantised(GetParam(), x, count, k);
    expect_same_bits(w, tokens, 1);
    if (HasFatalFailure()) return;
  }
}

/// From 0 to 256 of each 256 activations are large and of one sign, so that floats of Q4_K's and Q5_K's sums are exact of some tokens and rounded
/// of others; in runs of a few such tokens, and alone, and in all parts of a long row.
TEST_P(Tiles, GiveTheBitsOfVectorsWhereSumsAreLarge) {
  std::mt19937 random(8);
  for (const std::int64_t k : {256, 512, 16384 + 512}) {
    const std::int64_t rows = k > 1024 ? 16 : 32, count = 150;
    Weights w = random_weights(tiles().format, rows, k, Scales::similar, 9);
    if (scale_offsets(tiles().format).size() == 2)  // codes and scales of all ones, but for some odd ones
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 16; i < w.stride - 6; ++i) {
          const std::int64_t in_block = i % unit_bytes(tiles().format);
          if (in_block >= 4 && random() % 16 != 0) w.bytes[static_cast<std::size_t>(r * w.stride + i)] = std::byte{0xff};
        }
    std::vector<float> x = random_activations(count * k, 10);
    for (std::int64_t t = 0; t < count; ++t) {
      const bool large = t % 67 == 30 || (t >= 100 && t < 112) || t > 145;
      const std::int64_t from = k > 1024 && t % 2 != 0 ? k - 256 : 0;
      for (std::int64_t i = from; i < k; ++i) {
        float& v = x[static_cast<std::size_t>(t * k + i)];
        if (large || i % 256 < t) v = (t % 3 == 0 ? -1.0f : 1.0f) * static_cast<float>(60 + random() % 68);
      }
    }
    Tokens tokens = quantised(GetParam(), x, count, k);
    expect_same_bits(w, tokens, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Tiles, ATokenThatIsNotFiniteMakesItsOwnOutputsNotFinite) {
  const std::int64_t k = 512, rows = 16, count = 50;
  const Weights w = random_weights(tiles().format, rows, k, Scales::similar, 11);
  Panels panels = pack(tiles(), w);
  std::vector<float> x = random_activations(count * k, 12);
  x[static_cast<std::size_t>(20 * k + 300)] = std::numeric_limits<float>::quiet_NaN();
  x[static_cast<std::size_t>(33 * k + 3)] = std::numeric_limits<float>::infinity();
  Tokens tokens = quantised(GetParam(), x, count, k);
  const std::vector<float> y = multiply(tiles(), panels, rows, tokens, count, 1, rows);
  for (std::int64_t i = 0; i < count * rows; ++i)
    EXPECT_EQ(std::isfinite(y[static_cast<std::size_t>(i)]), i / rows != 20 && i / rows != 33) << i;
}

#ifdef QUERN_EMULATED_TILES
/// What is compared above did run on tiles, and one configuration a call suffices.
TEST_P(Tiles, TakeAllTokensButThoseWhoseFloatsMayBeRounded) {
  const std::int64_t k = 512, rows = 32;
  const Weights w = random_weights(tiles().format, rows, k, Scales::similar, 13);
  Panels panels = pack(tiles(), w);
  auto& emulated = avx512_amx::emulated_tiles;
  const bool k_format = tiles().activations == Activations::int8_256;
  const auto products_of = [&](std::int64_t count, const std::vector<float>& x) {
    Tokens tokens = quantised(GetParam(), x, count, k);
    emulated.products = emulated.configurations = 0;
    multiply(tiles(), panels, rows, tokens, count, 2, rows);
    return emulated.products;
  };
  EXPECT_EQ(products_of(16, random_activations(16 * k, 14)), 0);
  for (const std::int64_t count : {17, 64, 256}) {
    // For each 64 of k two products of each tile, by either byte or half.
    const std::int64_t tiles_of_tokens = (count + 31) / 32 * 2;
    EXPECT_EQ(products_of(count, random_activations(count * k, 15)), 2 * (k / 64) * tiles_of_tokens * (rows / 16));
    EXPECT_EQ(emulated.configurations, 1);
  }
  // One token whose sums may be large stands between 40 and 23 others.
  std::vector<float> x = random_activations(64 * k, 16);
  for (std::int64_t i = 0; i < 256; ++i) x[static_cast<std::size_t>(40 * k + i)] = 1.0f;
  const bool cut = k_format && tiles().format != QUERN_Q6_K;
  EXPECT_EQ(products_of(64, x), 2 * (k / 64) * (cut ? 4 + 2 : 4) * (rows / 16));
  EXPECT_EQ(emulated.configurations, cut ? 2 : 1);
}
#endif

INSTANTIATE_TEST_SUITE_P(Layouts, Tiles, testing::ValuesIn(tile_layouts()), [](const auto& test) {
  std::string name = test.param.layout->key;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Tiles);

#ifdef QUERN_EMULATED_TILES
using namespace avx512_amx;

/// Ends with the emulation as it was before.
class Emulation : public testing::Test {
 protected:
  void SetUp() override { emulated_tiles = {}; }
  void TearDown() override { emulated_tiles = {}; }
  static TileShapes shapes(std::int64_t tokens, int row_bytes, std::int64_t weight_rows) {
    TileShapes s;
    s.set(0, tokens, 64);
    s.set(1, tokens, row_bytes);
    s.set(2, weight_rows, 64);
    return s;
  }
};

TEST_F(Emulation, MultipliesBytesOfEitherSign) {
  configure_tiles(shapes(2, 8, 2));
  std::int8_t a[2][8] = {{1, -2, 3, -4, 5, -6, 7, -8}, {127, 127, -128, -128, 0, 0, 0, 1}};
  std::uint8_t b[2][64] = {};
  for (int k = 0; k < 8; ++k) b[k / 4][4 * 3 + k % 4] = static_cast<std::uint8_t>(250 + k % 4);  // column 3
  load_tile<1>(a, 8);
  load_tile<2>(b, 64);
  multiply_signed_unsigned<0, 1, 2>();
  multiply_signed_unsigned<0, 1, 2>();
  std::int32_t sums[2][16];
  store_tile<0>(sums, 64);
  int expected[2] = {}, expected_signed[2] = {};
  for (int m = 0; m < 2; ++m)
    for (int k = 0; k < 8; ++k) {
      expected[m] += 2 * a[m][k] * (250 + k % 4);
      expected_signed[m] += a[m][k] * (250 + k % 4 - 256);
    }
  for (int m = 0; m < 2; ++m)
    for (int n = 0; n < 16; ++n) EXPECT_EQ(sums[m][n], n == 3 ? expected[m] : 0);
  zero_tile<0>();
  multiply_signed<0, 1, 2>();
  store_tile<0>(sums, 64);
  for (int m = 0; m < 2; ++m) EXPECT_EQ(sums[m][3], expected_signed[m]);
  EXPECT_EQ(emulated_tiles.misuse, nullptr);
}

TEST_F(Emulation, RefusesWhatTheProcessorWould) {
  const auto misuse_of = [](const TileShapes& s, void (*use)()) {
    emulated_tiles = {};
    configure_tiles(s);
    use();
    return emulated_tiles.misuse != nullptr;
  };
  const auto multiply = [] { multiply_signed<0, 1, 2>(); };
  EXPECT_FALSE(misuse_of(shapes(16, 64, 16), multiply));
  EXPECT_TRUE(misuse_of(shapes(16, 64, 8), multiply)) << "k of both factors differs";
  EXPECT_TRUE(misuse_of(shapes(16, 30, 8), multiply)) << "a row is no whole number of 32-bit elements";
  TileShapes rows_differ = shapes(16, 64, 16);
  rows_differ.set(0, 15, 64);
  EXPECT_TRUE(misuse_of(rows_differ, multiply));
  TileShapes columns_differ = shapes(16, 64, 16);
  columns_differ.set(2, 16, 60);
  EXPECT_TRUE(misuse_of(columns_differ, multiply));
  EXPECT_TRUE(misuse_of(shapes(17, 64, 16), [] {})) << "17 rows";
  EXPECT_TRUE(misuse_of(shapes(16, 68, 16), [] {})) << "68 bytes";
  TileShapes palette = shapes(16, 64, 16);
  palette.palette = 2;
  EXPECT_TRUE(misuse_of(palette, [] {}));
  EXPECT_TRUE(misuse_of(shapes(16, 64, 16), [] { zero_tile<3>(); })) << "a tile without rows";
  EXPECT_TRUE(misuse_of(shapes(16, 64, 16), [] { release_tiles(), zero_tile<0>(); })) << "no configuration";
}
#endif

}  // namespace
}  // namespace quern::cpu
