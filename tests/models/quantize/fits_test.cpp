// Fits of every instruction set that this processor has, against the portable ones: the same bits.
#include "fits.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace quern::test {
namespace {

using quantize::Block;
using quantize::BlockLayout;
using quantize::Fits;

/// Normal numbers, large and tiny ones among them, and zeros.
std::vector<float> mixed_numbers(std::size_t count) {
  std::mt19937 random(23);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) {
    const unsigned kind = random() % 16;
    x = kind == 0 ? 0 : kind == 1 ? 1e-30f * normal(random) : kind == 2 ? 50 * normal(random) : normal(random);
  }
  return numbers;
}

std::vector<float> mixed_weights(std::size_t count) {
  std::vector<float> weights = mixed_numbers(count);
  for (float& w : weights) w = std::min(1.0f, w * w + 1e-6f);
  return weights;
}

std::vector<std::byte> packed(const BlockLayout& layout, const Block& block) {
  std::vector<std::byte> bytes(layout.bytes());
  layout.pack(block, bytes.data());
  return bytes;
}

TEST(Fits, BlocksHaveTheSameBitsWithEveryInstructionSet) {
  constexpr std::size_t blocks = 40;
  const std::vector<float> x = mixed_numbers(256 * blocks), w = mixed_weights(256 * blocks);
  const Fits& plain = *quantize::runnable_fits().front();
  for (const quern_format& format : quern_formats) {
    const BlockLayout& layout = *BlockLayout::find(format.id);
    if (!layout.can_pack()) continue;
    for (const Fits* fits : quantize::runnable_fits())
      for (std::size_t at = 0; at < x.size(); at += 256) {
        Block rounded, fitted, rounded_plainly, fitted_plainly;
        fits->round_block(layout, &x[at], rounded);
        fits->fit_block(layout, &x[at], &w[at], fitted);
        plain.round_block(layout, &x[at], rounded_plainly);
        plain.fit_block(layout, &x[at], &w[at], fitted_plainly);
        ASSERT_EQ(packed(layout, rounded), packed(layout, rounded_plainly)) << fits->name << " format " << format.id;
        ASSERT_EQ(packed(layout, fitted), packed(layout, fitted_plainly)) << fits->name << " format " << format.id;
      }
  }
}

TEST(Fits, GroupsHaveTheSameBitsWithEveryInstructionSet) {
  const std::vector<float> x = mixed_numbers(128 * 40), w = mixed_weights(128 * 40);
  const Fits& plain = *quantize::runnable_fits().front();
  for (const int numbers : {32, 64, 128})
    for (const bool zero_points : {false, true})
      for (const quern_dtype scale : {QUERN_F16, QUERN_BF16})
        for (const Fits* fits : quantize::runnable_fits())
          for (std::size_t at = 0; at < x.size(); at += 128) {
            std::vector<std::uint8_t> codes(128), codes_plainly(128);
            const quantize::GroupRequest request{numbers, zero_points, scale};
            const auto found = fits->fit_group(request, &x[at], &w[at], codes.data());
            const auto wanted = plain.fit_group(request, &x[at], &w[at], codes_plainly.data());
            ASSERT_EQ(std::memcmp(&found.scale, &wanted.scale, sizeof(float)), 0) << fits->name;
            ASSERT_EQ(found.zero, wanted.zero) << fits->name;
            ASSERT_EQ(codes, codes_plainly) << fits->name;
          }
}

}  // namespace
}  // namespace quern::test
