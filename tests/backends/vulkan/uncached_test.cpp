// What is read of uncached memory is what a plain copy of it gives, from any byte to any byte.
#include "uncached.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace quern::vulkan {
namespace {

TEST(Uncached, ReadsWhatAPlainCopyReads) {
  constexpr std::size_t line = 64;
  alignas(line) std::byte memory[6 * line];
  for (std::size_t i = 0; i < sizeof memory; ++i) memory[i] = static_cast<std::byte>(i * 7 + 1);
  for (std::size_t from = 0; from < 2 * line; ++from)
    for (std::size_t bytes = 0; from + bytes <= sizeof memory; ++bytes) {
      std::vector<std::byte> found(bytes + 2, std::byte{0xee});
      read_uncached(found.data() + 1, memory + from, bytes);
      ASSERT_EQ(found.front(), std::byte{0xee}) << from << " " << bytes;
      ASSERT_EQ(found.back(), std::byte{0xee}) << from << " " << bytes;
      ASSERT_EQ(std::memcmp(found.data() + 1, memory + from, bytes), 0) << from << " " << bytes;
    }
}

}  // namespace
}  // namespace quern::vulkan
