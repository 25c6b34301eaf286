// Encoders by weighted least squares, against the CPU's casts, which round.
#include "quern/models/encoding.hpp"
#include "quern/models/gguf.hpp"

#include "formats/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

namespace quern::test {
namespace {

using quantize::block_elements;
using quantize::encoded_bytes;

struct Format {
  const char* name;
  quern_dtype dtype;
  const cpu::BlockCodec* codec;
};
#define QUERN_TEST_FORMAT(FORMAT, format, with) {#format, QUERN_##FORMAT, &cpu::format##_codec},
const Format all_formats[] = {QUERN_EACH_FORMAT(QUERN_TEST_FORMAT, )};
/// Those that are made, which GGUF files have.
const std::vector<Format> formats = [] {
  std::vector<Format> made;
  std::ranges::copy_if(all_formats, std::back_inserter(made), [](const Format& format) { return gguf::has_ggml_type(format.dtype); });
  return made;
}();

std::vector<std::byte> encoded(quern_dtype dtype, std::span<const float> rows, std::span<const float> weights) {
  std::vector<std::byte> bytes(encoded_bytes(dtype, rows.size()));
  quantize::encode_rows(dtype, rows, weights, bytes);
  return bytes;
}

std::vector<float> decoded(quern_dtype dtype, std::span<const std::byte> bytes, std::size_t count) {
  std::vector<float> numbers(count);
  quantize::decode(dtype, bytes, numbers);
  return numbers;
}

std::vector<std::byte> rounded(const Format& format, std::span<const float> rows) {
  std::vector<std::byte> bytes(encoded_bytes(format.dtype, rows.size()));
  const std::size_t block = block_elements(format.dtype);
  for (std::size_t at = 0; at < rows.size(); at += block)
    format.codec->encode(rows.data() + at, reinterpret_cast<cpu::Byte*>(bytes.data()) + encoded_bytes(format.dtype, at));
  return bytes;
}

double error_of(std::span<const float> numbers, std::span<const float> rows, std::span<const float> weights) {
  double error = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double off = static_cast<double>(numbers[i]) - rows[i];
    error += weights[i % weights.size()] * off * off;
  }
  return error;
}

constexpr std::size_t columns = 512;

/// Rows of one kind each: normal ones, heavy tails, one sign, few values, tiny numbers, zeros.
std::vector<std::vector<float>> kinds_of_rows() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> heavy(2);
  const std::function<float()> kinds[] = {[&] { return 0.02f * normal(random); },
                                          [&] { return 0.02f * heavy(random); },
                                          [&] { return std::fabs(normal(random)) + 1; },
                                          [&] { return -std::fabs(normal(random)) - 1; },
                                          [&] { return static_cast<float>(static_cast<int>(random() % 16)) * 0.125f - 1; },
                                          [&] { return 1e-7f * normal(random); },
                                          [&] { return random() % 64 == 0 ? 100.0f * normal(random) : 0.01f * normal(random); },
                                          [&] { return 0.0f; },
                                          [&] { return 3000.0f * normal(random); }};
  std::vector<std::vector<float>> rows;
  for (const auto& kind : kinds) {
    std::vector<float>& row = rows.emplace_back(columns * 4);
    for (float& x : row) x = kind();
  }
  return rows;
}

std::vector<float> some_weights() {
  std::mt19937 random(11);
  std::vector<float> weights(columns);
  for (float& w : weights) w = std::exp(std::normal_distribution<float>(0, 2)(random));
  return weights;
}

TEST(Encoding, DecodesAsTheGoldensSay) {
  for (const Format& format : all_formats) {
    std::ifstream file(std::string(QUERN_SOURCE_DIR "/tests/data/formats/") + format.name + ".bin", std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const std::size_t block = block_elements(format.dtype), blocks = bytes.size() / (encoded_bytes(format.dtype, block) + 4 * block);
    ASSERT_GT(blocks, 0u) << format.name;
    const std::size_t head = encoded_bytes(format.dtype, blocks * block);
    std::vector<float> theirs(blocks * block);
    std::memcpy(theirs.data(), bytes.data() + head, theirs.size() * sizeof(float));
    const std::vector<float> ours = decoded(format.dtype, std::as_bytes(std::span(bytes).first(head)), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_TRUE(ours[i] == theirs[i] || (std::isnan(ours[i]) && std::isnan(theirs[i])))
          << format.name << " element " << i << ": " << ours[i] << " and " << theirs[i];
  }
}

TEST(Encoding, NoErrorIsLargerThanThatOfRounding) {
  const std::vector<float> ones(columns, 1.0f), weights = some_weights();
  for (const Format& format : formats)
    for (const std::vector<float>& rows : kinds_of_rows())
      for (const std::vector<float>& w : {ones, weights}) {
        const double fitted = error_of(decoded(format.dtype, encoded(format.dtype, rows, w), rows.size()), rows, w);
        const double plain = error_of(decoded(format.dtype, rounded(format, rows), rows.size()), rows, w);
        // The choice between the two is by sums in f32: 32 weighted squares of three roundings each in a group, 16 groups, and weights that
        // are rounded once. Each of the two sums is off by so much.
        EXPECT_LE(fitted, plain * (1 + 2 * (32 + 3 + 16 + 1) * 0x1p-24)) << format.name << " " << rows[0];
      }
}

TEST(Encoding, TheErrorOfNormalRowsFallsByThisMuch) {
  const std::vector<float> rows = kinds_of_rows()[0], ones(columns, 1.0f);
  for (const Format& format : formats) {
    const double fitted = error_of(decoded(format.dtype, encoded(format.dtype, rows, ones), rows.size()), rows, ones);
    const double plain = error_of(decoded(format.dtype, rounded(format, rows), rows.size()), rows, ones);
    RecordProperty(format.name, std::to_string(fitted / plain));
    EXPECT_LT(fitted, plain * (format.dtype == QUERN_Q8_0 ? 0.97 : 0.92)) << format.name << ": " << fitted / plain;
  }
}

TEST(Encoding, WeightsLowerTheErrorThatTheyWeigh) {
  const std::vector<float> ones(columns, 1.0f), weights = some_weights();
  for (const Format& format : formats)
    for (std::size_t kind : {0u, 1u}) {
      const std::vector<float> rows = kinds_of_rows()[kind];
      const auto error = [&](const std::vector<float>& w) {
        return error_of(decoded(format.dtype, encoded(format.dtype, rows, w), rows.size()), rows, weights);
      };
      EXPECT_LT(error(weights), 0.95 * error(ones)) << format.name;
    }
}

TEST(Encoding, NumbersOfTheFormatStayThemselves) {
  std::mt19937 random(3);
  const std::vector<float> ones(columns, 1.0f);
  for (const Format& format : formats) {
    if (format.dtype >= QUERN_Q4_K) continue;  // scales of scales: an equal block need not be found
    std::vector<float> rows(columns);
    for (float& x : rows) x = std::normal_distribution<float>()(random);
    rows = decoded(format.dtype, rounded(format, rows), rows.size());
    EXPECT_EQ(decoded(format.dtype, encoded(format.dtype, rows, ones), rows.size()), rows) << format.name;
  }
}

TEST(Encoding, ARowIsTheSameAloneAndAmongOthers) {
  const std::vector<float> rows = kinds_of_rows()[1], weights = some_weights();
  for (const Format& format : formats) {
    const std::vector<std::byte> all = encoded(format.dtype, rows, weights);
    for (std::size_t row = 0; row < rows.size() / columns; ++row) {
      const std::vector<std::byte> one = encoded(format.dtype, std::span(rows).subspan(row * columns, columns), weights);
      EXPECT_TRUE(std::ranges::equal(one, std::span(all).subspan(row * one.size(), one.size()))) << format.name;
    }
  }
}

TEST(Encoding, ColumnsWithoutWeightCountTheSame) {
  const std::vector<float> rows = kinds_of_rows()[0], ones(columns, 1.0f), zeros(columns, 0.0f);
  for (const Format& format : formats) EXPECT_EQ(encoded(format.dtype, rows, zeros), encoded(format.dtype, rows, ones)) << format.name;
  std::vector<float> half = ones;
  std::fill(half.begin(), half.begin() + columns / 2, 0.0f);
  for (const Format& format : formats) {
    const std::vector<float> numbers = decoded(format.dtype, encoded(format.dtype, rows, half), rows.size());
    for (std::size_t i = 0; i < columns / 2; ++i) EXPECT_NEAR(numbers[i], rows[i], 0.02f) << format.name << " " << i;
  }
}

TEST(Encoding, RefusesFormatsThatAreReadAlone) {
  const std::vector<float> ones(columns, 1.0f);
  for (const Format& format : all_formats)
    if (!gguf::has_ggml_type(format.dtype)) { EXPECT_THROW(encoded(format.dtype, ones, ones), Error) << format.name; }
}

TEST(Encoding, RefusesWhatHasNoPlace) {
  for (const Format& format : formats) {
    std::vector<float> rows(columns, 1.0f);
    const std::vector<float> ones(columns, 1.0f);
    EXPECT_NO_THROW(encoded(format.dtype, rows, ones));
    for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {
      rows[columns - 1] = bad;
      EXPECT_THROW(encoded(format.dtype, rows, ones), Error) << format.name << " " << bad;
    }
    rows[columns - 1] = 1;
    EXPECT_THROW(encoded(format.dtype, std::span(rows).first(columns - 1), std::span(ones).first(columns - 1)), Error) << format.name;
  }
}

}  // namespace
}  // namespace quern::test
