// Fits of every instruction set that this processor has, with all lanes and with one: the same bits.
#include "fits.hpp"

#define QUERN_FITS_ISA tested
#define QUERN_FITS_VECTOR 16
#include "lanes.hpp"

#include "quern/sdk/host_kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace quern::test {
namespace {

using quantize::Block;
using quantize::BlockLayout;
using quantize::FitItem;
using quantize::Fits;
using quantize::GroupOfCodes;

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

/// Blocks or groups one after another, with all of them in one call or each in a call of its own.
std::vector<FitItem> items_of(const std::vector<float>& x, const std::vector<float>& w, std::size_t size) {
  std::vector<FitItem> items;
  for (std::size_t at = 0; at + size <= x.size(); at += size) items.push_back({&x[at], &w[at]});
  return items;
}

std::vector<std::byte> packed(const BlockLayout& layout, std::span<const Block> blocks) {
  std::vector<std::byte> bytes(layout.bytes() * blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) layout.pack(blocks[i], &bytes[i * layout.bytes()]);
  return bytes;
}

TEST(Fits, BlocksHaveTheSameBitsWithEveryInstructionSetAndNeighbour) {
  constexpr std::size_t blocks = 43;  // no multiple of any number of lanes
  const std::vector<float> x = mixed_numbers(256 * blocks), w = mixed_weights(256 * blocks);
  for (const quern_format& format : quern_formats) {
    const BlockLayout& layout = *BlockLayout::find(format.id);
    if (!layout.can_pack()) continue;
    const std::vector<FitItem> items = items_of(x, w, 256);
    std::vector<Block> alone(blocks);
    for (std::size_t i = 0; i < blocks; ++i)
      quantize::runnable_fits().front()->fit_blocks(layout, std::span(items).subspan(i, 1), &alone[i]);
    for (const Fits* fits : quantize::runnable_fits()) {
      std::vector<Block> made(blocks);
      fits->fit_blocks(layout, items, made.data());
      ASSERT_EQ(packed(layout, made), packed(layout, alone)) << fits->name << " format " << format.id;
    }
  }
}

TEST(Fits, GroupsHaveTheSameBitsWithEveryInstructionSetAndNeighbour) {
  const std::vector<float> x = mixed_numbers(128 * 43), w = mixed_weights(128 * 43);
  for (const int numbers : {32, 64, 128})
    for (const bool zero_points : {false, true})
      for (const quern_dtype scale : {QUERN_F16, QUERN_BF16}) {
        const quantize::GroupRequest request{numbers, zero_points, scale};
        const auto size = static_cast<std::size_t>(numbers);
        const std::vector<FitItem> items = items_of(x, w, size);
        std::vector<GroupOfCodes> alone(items.size());
        std::vector<std::uint8_t> codes_alone(x.size());
        for (std::size_t i = 0; i < items.size(); ++i)
          quantize::runnable_fits().front()->fit_groups(request, std::span(items).subspan(i, 1), &alone[i], &codes_alone[i * size]);
        for (const Fits* fits : quantize::runnable_fits()) {
          std::vector<GroupOfCodes> made(items.size());
          std::vector<std::uint8_t> codes(x.size());
          fits->fit_groups(request, items, made.data(), codes.data());
          ASSERT_EQ(codes, codes_alone) << fits->name;
          for (std::size_t i = 0; i < items.size(); ++i) {
            ASSERT_EQ(std::memcmp(&made[i].scale, &alone[i].scale, sizeof(float)), 0) << fits->name;
            ASSERT_EQ(made[i].zero, alone[i].zero) << fits->name;
          }
        }
      }
}

/// The narrowest vectors' own, which every other must equal.
TEST(Fits, HalvesInLanesAreThoseOfTheSdk) {
  using namespace quantize::tested;
  const auto check = [](std::uint32_t bits) {
    const auto number = std::bit_cast<float>(bits);
    ASSERT_EQ(half_bits(all(number))[lanes - 1], sdk::to_f16(number)) << std::hex << bits;
  };
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const float number = sdk::from_f16(static_cast<std::uint16_t>(half));
    const auto bits = std::bit_cast<std::uint32_t>(number);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(float{from_half_bits(Integers{} + static_cast<std::int32_t>(half))[0]}), bits)
        << std::hex << half;
    for (const std::uint32_t beside : {bits, bits + 1, bits - 1, bits + 0x1000, bits + 0x1001, bits + 0xfff}) check(beside);
  }
  for (std::uint32_t bits = 0x32000000; bits < 0x39000000; bits += 0x3ff) check(bits);  // where numbers get fewer bits
}

}  // namespace
}  // namespace quern::test
