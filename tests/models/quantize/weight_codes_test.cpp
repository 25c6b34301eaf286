// Codes of quantised directories: integers in groups, and E4M3.
#include "quern/models/floats.hpp"
#include "quern/models/weight_codes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quern::test {
namespace {

using quantize::GroupForm;

struct Encoded {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales;
};

Encoded coded(const GroupForm& form, std::span<const float> rows, std::span<const float> weights) {
  Encoded made{std::vector<std::uint8_t>(rows.size()), std::vector<std::uint8_t>(rows.size() / form.group),
               std::vector<float>(rows.size() / form.group)};
  quantize::encode_groups(form, rows, weights, {made.codes, made.scales, made.zeros});
  return made;
}

double coded_error(const GroupForm& form, const Encoded& made, std::span<const float> rows, std::span<const float> weights) {
  double error = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double off = rows[i] - double{made.scales[i / form.group]} * (made.codes[i] - made.zeros[i / form.group]);
    error += weights[i % weights.size()] * off * off;
  }
  return error;
}

float stored(quern_dtype dtype, float number) {
  return models::decode_floats(dtype, models::encode_floats(dtype, std::span(&number, 1)))[0];
}

/// As AutoAWQ and compressed-tensors do it: the scale by the ends, the zero point by the least number.
Encoded plainly_coded(const GroupForm& form, std::span<const float> rows) {
  Encoded made;
  for (std::size_t at = 0; at < rows.size(); at += form.group) {
    const auto [least, most] = std::ranges::minmax(rows.subspan(at, form.group));
    const float low = std::min(least, 0.0f), high = std::max(most, 0.0f);
    const float scale = stored(form.scale, form.zero_points ? (high - low) / 15 : std::max(high / 7, -low / 8));
    const float zero = form.zero_points && scale > 0 ? std::clamp(std::nearbyint(-low / scale), 0.0f, 15.0f) : 8;
    made.scales.push_back(scale);
    made.zeros.push_back(static_cast<std::uint8_t>(zero));
    for (std::size_t i = at; i < at + form.group; ++i)
      made.codes.push_back(static_cast<std::uint8_t>(std::clamp(std::nearbyint(scale > 0 ? rows[i] / scale : 0) + zero, 0.0f, 15.0f)));
  }
  return made;
}

std::vector<GroupForm> forms() {
  std::vector<GroupForm> all;
  for (const std::uint64_t group : {32u, 64u, 128u})
    for (const bool zeros : {false, true})
      for (const quern_dtype scale : {QUERN_F16, QUERN_BF16}) all.push_back({group, zeros, scale});
  return all;
}

std::vector<float> normal_rows(float middle, float size, std::size_t count = 1024) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(middle, size);
  std::vector<float> rows(count);
  for (float& x : rows) x = normal(random);
  return rows;
}

std::vector<float> column_weights() {
  std::mt19937 random(11);
  std::vector<float> weights(256);
  for (float& w : weights) w = std::exp(std::normal_distribution<float>(0, 2)(random));
  return weights;
}

TEST(GroupCodes, NoErrorIsLargerThanThatOfRounding) {
  const std::vector<float> ones(256, 1.0f), weights = column_weights();
  for (const GroupForm& form : forms())
    for (const std::vector<float>& rows :
         {normal_rows(0, 0.02f), normal_rows(1, 0.1f), normal_rows(-3, 1), normal_rows(0, 1e-6f), normal_rows(0, 0)})
      for (const std::vector<float>& w : {ones, weights}) {
        const double fitted = coded_error(form, coded(form, rows, w), rows, w),
                     plain = coded_error(form, plainly_coded(form, rows), rows, w);
        // The choice is by two sums of 128 weighted squares in f32, each square of three roundings and a weight of one.
        EXPECT_LE(fitted, plain * (1 + 2 * (128 + 3 + 1) * 0x1p-24)) << form.group << " " << form.zero_points << " " << rows[0];
      }
}

TEST(GroupCodes, WeightsAndLeastSquaresLowerTheErrorOfNormalRows) {
  const std::vector<float> rows = normal_rows(0, 0.02f), weights = column_weights();
  for (const GroupForm& form : forms())
    EXPECT_LT(coded_error(form, coded(form, rows, weights), rows, weights),
              0.9 * coded_error(form, plainly_coded(form, rows), rows, weights))
        << form.group;
}

TEST(GroupCodes, ScalesAreNumbersOfTheirTypeAndZeroPointsAsTheFormHasThem) {
  for (const GroupForm& form : forms()) {
    const Encoded made = coded(form, normal_rows(0.01f, 0.02f), column_weights());
    EXPECT_LE(std::ranges::max(made.codes), 15);
    for (const float scale : made.scales) EXPECT_TRUE(scale >= 0 && scale == stored(form.scale, scale)) << scale;
    for (const std::uint8_t zero : made.zeros) EXPECT_TRUE(form.zero_points ? zero < 16 : zero == 8);
  }
}

TEST(GroupCodes, RowsOfTheFormStayThemselves) {
  for (const GroupForm& form : forms()) {
    std::vector<float> rows(256);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.125f * static_cast<float>(static_cast<int>(i % 16) - 8);
    const std::vector<float> ones(256, 1.0f);
    EXPECT_EQ(coded_error(form, coded(form, rows, ones), rows, ones), 0) << form.group;
  }
}

TEST(GroupCodes, RefusesWhatHasNoPlace) {
  const std::vector<float> ones(256, 1.0f);
  for (const float number : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> rows(256, 0.5f);
    rows[77] = number;
    EXPECT_THROW(coded({}, rows, ones), Error);
  }
  EXPECT_THROW(coded({}, std::vector<float>(256, 3e38f), ones), Error);  // no f16 is such a scale
  EXPECT_THROW(coded({}, std::vector<float>(192, 1.0f), ones), Error);   // no whole row
  EXPECT_THROW(coded({48, false, QUERN_F16}, std::vector<float>(192, 1.0f), std::vector<float>(192, 1.0f)), Error);
  EXPECT_THROW(quantize::largest_magnitude(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()}), Error);
}

double e4m3(unsigned code) {
  const unsigned exponent = code >> 3 & 15u, eighths = code & 7u;
  const double size = exponent == 0 ? std::ldexp(eighths, -9) : std::ldexp(8 + eighths, static_cast<int>(exponent) - 10);
  return (code & 128u) != 0 ? -size : size;
}

TEST(E4m3, EachNumberGetsTheNearestOneAndTiesTheEvenOne) {
  std::vector<float> numbers;
  for (unsigned code = 0; code < 0x7eu; ++code) {  // the numbers themselves, what lies between them, and beside that
    const auto low = static_cast<float>(e4m3(code)), middle = static_cast<float>((e4m3(code) + e4m3(code + 1)) / 2);
    for (const float x : {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 500.0f)}) {
      numbers.push_back(x);
      numbers.push_back(-x);
    }
  }
  numbers.insert(numbers.end(), {448.0f, 460.0f, -1e9f, 0.0f});
  std::vector<std::uint8_t> codes(numbers.size());
  quantize::encode_e4m3(numbers, 1, codes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double least = 1e30;
    for (unsigned code = 0; code < 256; ++code)
      if ((code & 0x7fu) != 0x7fu) least = std::min(least, std::fabs(e4m3(code) - numbers[i]));
    const double off = std::fabs(e4m3(codes[i]) - numbers[i]);
    EXPECT_EQ(off, least) << numbers[i];
    const bool tie = (codes[i] & 0x7fu) < 0x7eu && (std::fabs(e4m3(codes[i] + 1u) - numbers[i]) == off ||
                                                    ((codes[i] & 0x7fu) > 0 && std::fabs(e4m3(codes[i] - 1u) - numbers[i]) == off));
    if (tie) { EXPECT_EQ(codes[i] % 2, 0) << numbers[i]; }
  }
}

TEST(E4m3, TheLargestNumberBecomesTheLargestCode) {
  EXPECT_EQ(quantize::e4m3_scale(896), 2);
  EXPECT_EQ(quantize::e4m3_scale(0), 1);
  std::vector<std::uint8_t> codes(2);
  quantize::encode_e4m3(std::vector<float>{-3, 1.5f}, quantize::e4m3_scale(3), codes);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0xfe, 0x76}));
}

}  // namespace
}  // namespace quern::test
