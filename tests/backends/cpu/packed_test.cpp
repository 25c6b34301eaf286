// Packed layouts, each against the portable decoder and f64: all layouts of all sets that this processor can run.
//
// Internal: it links the backend's objects, since a layout is no part of the plugin's C ABI.
#include "packed_case.hpp"

#include <gmock/gmock.h>
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

/// For each element a bound of what its code, offset and minimum contribute by themselves: the kernels may sum them apart.
std::vector<double> part_magnitudes(const Weights& w) {
  std::vector<double> sum(static_cast<std::size_t>(w.rows * w.k));
  const std::vector<float> plain = w.decoded();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = std::fabs(plain[i]);
  if (!is_block(w.format)) return sum;
  for (const int code : {0x00, 0xff, 0x80}) {
    Weights all = w;
    const std::int64_t unit = unit_bytes(w.format), units = w.k / unit_elements(w.format);
    const std::int64_t begin = codes_at(w.format);
    const std::int64_t end = w.format == QUERN_Q6_K ? 192 : unit;
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t u = 0; u < units; ++u)
        for (std::int64_t i = begin; i < end; ++i)
          all.bytes[static_cast<std::size_t>(r * w.stride + u * unit + i)] = finite_code(w.format, static_cast<std::byte>(code));
    const std::vector<float> decoded = all.decoded();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += std::fabs(decoded[i]);
  }
  return sum;
}

std::vector<std::int64_t> depths(const PackedLayout& layout) {
  if (layout.k_multiple == 1) return {1, 7, 16, 100, 576};
  if (layout.k_multiple == 32) return {32, 64, 96, 576};
  if (layout.k_multiple < 256) return {layout.k_multiple, 3 * layout.k_multiple, 640};
  return {256, 512, 768};
}

class Packed : public testing::TestWithParam<Case> {};

TEST_P(Packed, UnpacksToTheBitsOfTheCanonicalDecode) {
  const PackedLayout& layout = *GetParam().layout;
  for (const std::int64_t k : depths(layout))
    for (const Scales kind : {Scales::similar, Scales::extreme})
      for (const std::int64_t rows : {layout.panel_rows, std::int64_t{5}}) {
        const Weights w = random_weights(layout.format, rows, k, kind, static_cast<std::uint32_t>(k + rows));
        Panels panels = pack(layout, w);
        const std::vector<float> expected = w.decoded();
        std::vector<float> row(static_cast<std::size_t>(k) + 1, untouched);
        for (std::int64_t r = 0; r < rows; ++r) {
          layout.unpack_row(panels.memory.data(), r, k, row.data());
          EXPECT_EQ(row.back(), untouched);
          for (std::int64_t i = 0; i < k; ++i)
            ASSERT_EQ(std::bit_cast<std::uint32_t>(row[static_cast<std::size_t>(i)]),
                      std::bit_cast<std::uint32_t>(expected[static_cast<std::size_t>(r * k + i)]))
                << "k " << k << ", row " << r << ", element " << i;
        }
      }
}

TEST_P(Packed, PacksTheSameBytesWhateverWasThereBefore) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = depths(layout).back(), bytes = layout.panel_bytes(k);
  const Weights w = random_weights(layout.format, 5, k, Scales::extreme, 3);
  Aligned<std::byte> one(bytes), two(bytes);
  std::memset(one.data(), 0x00, static_cast<std::size_t>(bytes));
  std::memset(two.data(), 0xff, static_cast<std::size_t>(bytes));
  layout.pack(w.bytes.data(), w.stride, w.rows, k, one.data());
  layout.pack(w.bytes.data(), w.stride, w.rows, k, two.data());
  EXPECT_EQ(std::memcmp(one.data(), two.data(), static_cast<std::size_t>(bytes)), 0);
}

/// The weights that a layout multiplies. Int8 products of NF4_64 have its numbers as multiples of 1/4096: they are off by half of that at most.
std::vector<float> multiplied(const PackedLayout& layout, const Weights& w) {
  std::vector<float> values = w.decoded();
  if (layout.format != QUERN_NF4_64 || is_float(layout.activations)) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / w.k, unit = static_cast<std::int64_t>(i) % w.k / unit_elements(w.format);
    float scale = 0;
    std::memcpy(&scale, w.bytes.data() + row * w.stride + unit * unit_bytes(w.format), sizeof scale);
    if (scale != 0) values[i] = std::round(values[i] / scale * 4096.0f) / 4096.0f * scale;
  }
  return values;
}

/// Every output is a chain of at most k / 16 additions (float activations: k), each of at most four roundings besides, and no part
/// of it is larger than the sum of the magnitudes of all parts: code times scale, offset and minimum, for each element.
void expect_near_f64(const PackedLayout& layout, const Weights& w, Tokens& tokens, const std::vector<float>& y, std::int64_t y_stride) {
  const std::vector<float> weights = multiplied(layout, w);
  const std::vector<double> magnitudes = part_magnitudes(w);
  const double additions = is_float(layout.activations) ? static_cast<double>(w.k) : static_cast<double>(w.k) / 16.0;
  const double relative = (additions + 8.0) * std::numeric_limits<float>::epsilon();
  std::vector<double> x(static_cast<std::size_t>(w.k));
  for (std::int64_t t = 0; t < tokens.count; ++t) {
    for (std::int64_t i = 0; i < w.k; ++i) x[static_cast<std::size_t>(i)] = tokens.at(t, i);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < w.k; ++i) {
        const auto at = static_cast<std::size_t>(r * w.k + i);
        sum += weights[at] * x[static_cast<std::size_t>(i)];
        magnitude += magnitudes[at] * std::fabs(x[static_cast<std::size_t>(i)]);
      }
      const double got = y[static_cast<std::size_t>(t * y_stride + r)];
      ASSERT_LE(std::fabs(got - sum), relative * magnitude + 1e-37)
          << "k " << w.k << ", token " << t << " of " << tokens.count << ", row " << r << ": " << got << " for " << sum;
    }
    for (std::int64_t r = w.rows; r < y_stride; ++r)
      ASSERT_EQ(y[static_cast<std::size_t>(t * y_stride + r)], untouched) << "wrote behind row " << w.rows << " of token " << t;
  }
}

TEST_P(Packed, MultipliesAsTheQuantisedActivationsInF64) {
  const PackedLayout& layout = *GetParam().layout;
  for (const std::int64_t k : depths(layout))
    for (const std::int64_t rows : {layout.panel_rows, 3 * layout.panel_rows - 3})
      for (const std::int64_t count : {1, 3, 8, 13}) {
        const Weights w = random_weights(layout.format, rows, k, Scales::similar, static_cast<std::uint32_t>(k + rows));
        Panels panels = pack(layout, w);
        Tokens tokens = quantised(GetParam(), random_activations(count * k, 7), count, k);
        expect_near_f64(layout, w, tokens, multiply(layout, panels, rows, tokens, count, panels.count, rows + 5), rows + 5);
        if (HasFatalFailure()) return;
      }
}

TEST_P(Packed, MultipliesScalesOfAllSizes) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = depths(layout).back(), rows = 2 * layout.panel_rows, count = 9;
  const Weights w = random_weights(layout.format, rows, k, Scales::extreme, 11);
  Panels panels = pack(layout, w);
  Tokens tokens = quantised(GetParam(), random_activations(count * k, 8), count, k);
  expect_near_f64(layout, w, tokens, multiply(layout, panels, rows, tokens, count, panels.count, rows), rows);
}

/// Codes at the ends of their range against activations of +-127, all of one sign or alternating: where an integer would overflow.
TEST_P(Packed, MultipliesTheLargestCodesAndActivations) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = depths(layout).back(), rows = layout.panel_rows;
  for (const int code : {0x00, 0xff, 0x80, 0x7f, 0xf0, 0x0f}) {
    Weights w = random_weights(layout.format, rows, k, Scales::similar, 5);
    if (!is_block(layout.format)) return;
    const std::int64_t unit = unit_bytes(layout.format);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t u = 0; u < k / unit_elements(layout.format); ++u) {
        std::byte* block = w.bytes.data() + r * w.stride + u * unit;
        std::memset(block, static_cast<int>(finite_code(layout.format, static_cast<std::byte>(code))), static_cast<std::size_t>(unit));
        set_scales(layout.format, block, [] { return float_to_half(0.01f); });
      }
    Panels panels = pack(layout, w);
    for (const std::int64_t count : {4, 32}) {  // of many tokens, whole tiles have large sums
      std::vector<float> x;
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t i = 0; i < k; ++i) {
          const bool positive[] = {true, false, i % 2 != 0, i % 32 < 16};
          x.push_back(positive[t * 4 / count] ? 127.0f : -127.0f);
        }
      Tokens tokens = quantised(GetParam(), x, count, k);
      expect_near_f64(layout, w, tokens, multiply(layout, panels, rows, tokens, count, 1, rows), rows);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Packed, GivesTheSameBitsForAnyNumberOfTokensAndAnySplit) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = depths(layout).back(), rows = 5 * layout.panel_rows - 2;
  const Weights w = random_weights(layout.format, rows, k, Scales::similar, 21);
  Panels panels = pack(layout, w);
  std::vector<std::int64_t> counts{64, 150, 300};
  for (std::int64_t n = 1; n <= 40; ++n) counts.push_back(n);
  const std::int64_t most = 300;
  const std::vector<float> x = random_activations(most * k, 9);
  Tokens all = quantised(GetParam(), x, most, k);
  const std::vector<float> reference = multiply(layout, panels, rows, all, 1, panels.count, rows);
  for (const std::int64_t n : counts) {
    Tokens tokens = quantised(GetParam(), x, n, k);
    for (const std::int64_t panels_a_call : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, panels.count}) {
      const std::vector<float> y = multiply(layout, panels, rows, tokens, n, panels_a_call, rows);
      ASSERT_EQ(std::memcmp(y.data(), reference.data(), y.size() * sizeof(float)), 0)
          << n << " tokens, " << panels_a_call << " panels a call";
    }
  }
}

/// Kernels may choose how they add by how large sums can become: from one token to the next, 0 to 32 of 32 activations are +-127.
TEST_P(Packed, GivesTheSameBitsWhereSumsAreSmallAndLarge) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = depths(layout).back(), rows = 3 * layout.panel_rows, count = 132;
  const Weights w = random_weights(layout.format, rows, k, Scales::similar, 23);
  Panels panels = pack(layout, w);
  std::vector<float> x = random_activations(count * k, 15);
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t i = 0; i < k; ++i) {
      float& v = x[static_cast<std::size_t>(t * k + i)];
      const auto at = i * 13 % 32;  // half of them in either half
      if (at < t / 4) v = t % 4 == 0 || (t % 4 == 1 && i % 32 < 16) ? 127.0f : t % 4 == 2 ? -127.0f : v < 0 ? -127.0f : 127.0f;
    }
  Tokens tokens = quantised(GetParam(), x, count, k);
  const std::vector<float> one = multiply(layout, panels, rows, tokens, 1, 1, rows);
  EXPECT_EQ(one, multiply(layout, panels, rows, tokens, 7, panels.count, rows));
  EXPECT_EQ(one, multiply(layout, panels, rows, tokens, count, panels.count, rows));
  expect_near_f64(layout, w, tokens, one, rows);
}

/// Of so long a row, what is said of its parts takes more than one word.
TEST_P(Packed, GivesTheSameBitsWhereOnlyTheLastSumsAreLarge) {
  const PackedLayout& layout = *GetParam().layout;
  if (is_float(layout.activations)) return;
  const std::int64_t k = 16384 + 256, rows = layout.panel_rows, count = 18;
  const Weights w = random_weights(layout.format, rows, k, Scales::similar, 24);
  Panels panels = pack(layout, w);
  std::vector<float> x = random_activations(count * k, 16);
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t i = k - 256; i < k; ++i) x[static_cast<std::size_t>(t * k + i)] = 127.0f;
  Tokens tokens = quantised(GetParam(), x, count, k);
  const std::vector<float> one = multiply(layout, panels, rows, tokens, 1, 1, rows);
  EXPECT_EQ(one, multiply(layout, panels, rows, tokens, count, 1, rows));
  expect_near_f64(layout, w, tokens, one, rows);
}

/// More panels than a group and more tokens than a block of the kernels, and the most of both that are taken at once.
TEST_P(Packed, GivesTheSameBitsInGroupsOfPanelsAndBlocksOfTokens) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = depths(layout).back(), rows = 19 * layout.panel_rows - 2, most = 257;
  const Weights w = random_weights(layout.format, rows, k, Scales::similar, 22);
  Panels panels = pack(layout, w);
  const std::vector<float> x = random_activations(most * k, 14);
  Tokens all = quantised(GetParam(), x, most, k);
  const std::vector<float> reference = multiply(layout, panels, rows, all, 1, 1, rows);
  for (const std::int64_t n : {std::int64_t{17}, std::int64_t{256}, most}) {
    Tokens tokens = quantised(GetParam(), x, n, k);
    for (const std::int64_t panels_a_call : {std::int64_t{8}, panels.count}) {
      const std::vector<float> y = multiply(layout, panels, rows, tokens, n, panels_a_call, rows);
      ASSERT_EQ(std::memcmp(y.data(), reference.data(), y.size() * sizeof(float)), 0)
          << n << " tokens, " << panels_a_call << " panels a call";
    }
  }
}

TEST_P(Packed, MultipliesLongRows) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = 16384, rows = 2 * layout.panel_rows, count = 8;
  const Weights w = random_weights(layout.format, rows, k, Scales::similar, 31);
  Panels panels = pack(layout, w);
  Tokens tokens = quantised(GetParam(), random_activations(count * k, 10), count, k);
  const std::vector<float> y = multiply(layout, panels, rows, tokens, count, panels.count, rows);
  expect_near_f64(layout, w, tokens, y, rows);
  EXPECT_EQ(y, multiply(layout, panels, rows, tokens, 1, 1, rows));
}

TEST_P(Packed, ATokenThatIsNotFiniteMakesItsOwnOutputsNotFinite) {
  const PackedLayout& layout = *GetParam().layout;
  const std::int64_t k = 512, rows = layout.panel_rows;
  Weights w = random_weights(layout.format, rows, k, Scales::similar, 41);
  Panels panels = pack(layout, w);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = random_activations(3 * k, 12);
    x[static_cast<std::size_t>(k + 300)] = bad;
    Tokens tokens = quantised(GetParam(), x, 3, k);
    const std::vector<float> y = multiply(layout, panels, rows, tokens, 3, 1, rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      EXPECT_TRUE(std::isfinite(y[static_cast<std::size_t>(r)]));
      if (!is_float(layout.activations)) { EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(rows + r)])) << "row " << r; }
      EXPECT_TRUE(std::isfinite(y[static_cast<std::size_t>(2 * rows + r)]));
    }
  }
}

/// A code of F8_128 that stands for NaN, at any place of a block and whatever it is multiplied with, makes its own row NaN.
TEST_P(Packed, ACodeForNaNMakesItsOwnRowNaN) {
  const PackedLayout& layout = *GetParam().layout;
  if (layout.format != QUERN_F8_128) return;
  const std::int64_t k = 384, rows = layout.panel_rows;
  for (const std::int64_t at : {0, 1, 2, 3, 127, 130, 383})
    for (const int code : {0x7f, 0xff}) {
      Weights w = random_weights(layout.format, rows, k, Scales::similar, 43);
      w.bytes[static_cast<std::size_t>(3 * w.stride + at / 128 * 132 + 4 + at % 128)] = static_cast<std::byte>(code);
      Panels panels = pack(layout, w);
      for (const std::int64_t count : {1, 20}) {
        std::vector<float> x = random_activations(count * k, 12);
        for (std::int64_t t = 0; t < count; ++t) x[static_cast<std::size_t>(t * k + at)] = 0.0f;
        Tokens tokens = quantised(GetParam(), x, count, k);
        const std::vector<float> y = multiply(layout, panels, rows, tokens, count, 1, rows);
        for (std::int64_t i = 0; i < count * rows; ++i)
          ASSERT_EQ(std::isnan(y[static_cast<std::size_t>(i)]), i % rows == 3) << "element " << at << ", row " << i % rows;
      }
      std::vector<float> row(static_cast<std::size_t>(k));
      layout.unpack_row(panels.memory.data(), 3, k, row.data());
      for (std::int64_t i = 0; i < k; ++i) ASSERT_EQ(std::isnan(row[static_cast<std::size_t>(i)]), i == at);
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Packed, testing::ValuesIn(runnable_layouts()), [](const auto& test) {
  std::string name = std::string(test.param.set_name) + "_" + test.param.layout->key;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Packed);

// ---------------------------------------------------------------------------------------------- quantise

class Quantise : public testing::TestWithParam<Set> {};

/// The rows of packed.hpp: a code is the f32 quotient x / scale rounded to nearest even, exactly, whatever the instruction set.
void expect_quantised(Activations kind, const float* x, std::int64_t k, const std::byte* row) {
  const std::int64_t block = kind == Activations::int8_256 ? 256 : 32;
  const ActivationRow a = activation_row(kind, row, k);
  for (std::int64_t b = 0; b < k / block; ++b) {
    float greatest = 0;
    bool finite = true;
    for (std::int64_t i = b * block; i < (b + 1) * block; ++i) {
      greatest = std::max(greatest, std::fabs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    if (!finite) {
      EXPECT_TRUE(std::isnan(a.scales[b])) << "block " << b;
      continue;
    }
    ASSERT_EQ(a.scales[b], greatest / 127.0f) << "block " << b;
    for (std::int64_t i = b * block; i < (b + 1) * block; ++i) {
      const float quotient = a.scales[b] == 0.0f ? 0.0f : x[i] / a.scales[b];
      // Of a subnormal block the scale is so coarse that a quotient can pass 127.
      ASSERT_EQ(static_cast<float>(a.codes[i]), std::clamp(std::nearbyint(quotient), -127.0f, 127.0f)) << "element " << i;
    }
  }
  for (std::int64_t b = 0; b < k / 32; ++b) {
    int sum = 0;
    for (int i = 0; i < 32; ++i) sum += a.codes[b * 32 + i];
    const float scale = a.scales[b * 32 / block];
    if (std::isnan(scale)) {
      EXPECT_TRUE(std::isnan(a.sums[b]));
    } else {
      ASSERT_EQ(a.sums[b], static_cast<float>(sum) * scale) << "sum " << b;
    }
  }
}

TEST_P(Quantise, RoundsToTheNearestCodeOfEachBlock) {
  for (const Activations kind : {Activations::int8_32, Activations::int8_256})
    for (const std::int64_t k : {256, 768, 2048}) {
      const std::int64_t rows = 5, stride = k + 3, bytes = activation_row_bytes(kind, k);
      std::mt19937 random(17);
      std::vector<float> x = random_activations(rows * stride, 13);
      for (std::int64_t b = 0; b < rows * stride / 32; ++b) {
        const float size = std::ldexp(1.0f, static_cast<int>(random() % 200) - 100);
        for (std::int64_t i = b * 32; i < (b + 1) * 32; ++i) x[static_cast<std::size_t>(i)] *= size;
      }
      Aligned<std::byte> out(rows * bytes);
      GetParam().set->quantise(kind, x.data(), stride, rows, k, out.data());
      for (std::int64_t r = 0; r < rows; ++r) expect_quantised(kind, x.data() + r * stride, k, out.data() + r * bytes);
    }
}

/// x = (n + 1/2) scale for a scale that is no power of two: where x (127 / greatest) would fall on the other side of a tie.
TEST_P(Quantise, DividesByTheScale) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<float> x(256);
    const float greatest = 1.0f + static_cast<float>(random() % 8388608) * 0x1p-23f, scale = greatest / 127.0f;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(random() % 127) + 0.5f) * scale;
    for (std::size_t i = 0; i < x.size(); i += 32) x[i] = greatest;
    for (const Activations kind : {Activations::int8_32, Activations::int8_256}) {
      Aligned<std::byte> out(activation_row_bytes(kind, 256));
      GetParam().set->quantise(kind, x.data(), 256, 1, 256, out.data());
      expect_quantised(kind, x.data(), 256, out.data());
      if (HasFatalFailure()) return;
    }
  }
}

/// The rounding of half.hpp, of any bits; an odd row ends with a zero.
TEST_P(Quantise, RoundsToTheNearestBf16) {
  if (std::ranges::none_of(GetParam().set->layouts, [](const PackedLayout& l) { return l.activations == Activations::bf16; }))
    GTEST_SKIP() << "no layout of this processor takes bf16 activations";
  std::mt19937 random(29);
  for (const std::int64_t k : {1, 7, 16, 77, 768}) {
    const std::int64_t rows = 3, stride = k + 2, bytes = activation_row_bytes(Activations::bf16, k);
    std::vector<float> x(static_cast<std::size_t>(rows * stride));
    for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    x[0] = std::bit_cast<float>(0x3f808000u);  // a tie
    Aligned<std::byte> out(rows * bytes);
    std::memset(out.data(), 0xa5, static_cast<std::size_t>(rows * bytes));
    GetParam().set->quantise(Activations::bf16, x.data(), stride, rows, k, out.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* row = reinterpret_cast<const std::uint16_t*>(out.data() + r * bytes);
      for (std::int64_t i = 0; i < k; ++i) {
        const float value = x[static_cast<std::size_t>(r * stride + i)];
        ASSERT_EQ(std::isnan(value), std::isnan(bfloat_to_float(row[i]))) << "k " << k << ", element " << i;
        if (!std::isnan(value)) { ASSERT_EQ(row[i], float_to_bfloat(value)) << "k " << k << ", element " << i; }
      }
      if (k % 2 != 0) { EXPECT_EQ(row[k], 0); }
    }
  }
}

TEST_P(Quantise, TiesGoToTheEvenCode) {
  std::vector<float> x(256, 0.0f);
  for (int b = 0; b < 8; ++b) x[static_cast<std::size_t>(b * 32)] = 127.0f;
  for (int i = 1; i < 32; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i) - 15.5f;
  for (const Activations kind : {Activations::int8_32, Activations::int8_256}) {
    Aligned<std::byte> out(activation_row_bytes(kind, 256));
    GetParam().set->quantise(kind, x.data(), 256, 1, 256, out.data());
    const ActivationRow a = activation_row(kind, out.data(), 256);
    for (int i = 1; i < 32; ++i)
      EXPECT_EQ(a.codes[i], static_cast<int>(std::nearbyint(x[static_cast<std::size_t>(i)]))) << x[static_cast<std::size_t>(i)];
  }
}

TEST_P(Quantise, ZerosNonFiniteAndTinyBlocks) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const Activations kind : {Activations::int8_32, Activations::int8_256})
    for (const float special : {nan, infinity, -infinity, 3.4e38f, -3.4e38f, 1e-30f, 1e-37f, 1e-38f, 1e-43f, 1e-45f, 0.0f, -0.0f})
      for (const int at : {0, 17, 31, 255, 256, 511}) {
        std::vector<float> x(512, 0.0f);
        x[static_cast<std::size_t>(at)] = special;
        Aligned<std::byte> out(activation_row_bytes(kind, 512));
        GetParam().set->quantise(kind, x.data(), 512, 1, 512, out.data());
        expect_quantised(kind, x.data(), 512, out.data());
      }
}

std::vector<Set> quantising_sets() {
  std::vector<Set> sets;
  for (const Set& s : runnable_sets())
    if (s.set->quantise != nullptr) sets.push_back(s);
  return sets;
}
INSTANTIATE_TEST_SUITE_P(Sets, Quantise, testing::ValuesIn(quantising_sets()),
                         [](const auto& test) { return std::string(test.param.name); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Quantise);

}  // namespace
}  // namespace quern::cpu
