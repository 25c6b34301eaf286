// Which queue family copies beside the one that computes.
#include "card.hpp"

#include <gtest/gtest.h>

namespace quern::vulkan {
namespace {

constexpr VkQueueFlags graphics = VK_QUEUE_GRAPHICS_BIT, compute = VK_QUEUE_COMPUTE_BIT, transfer = VK_QUEUE_TRANSFER_BIT,
                       sparse = VK_QUEUE_SPARSE_BINDING_BIT;
constexpr VkQueueFlags video = VK_QUEUE_VIDEO_DECODE_BIT_KHR, optical_flow = VK_QUEUE_OPTICAL_FLOW_BIT_NV;

std::optional<std::uint32_t> chosen(std::initializer_list<VkQueueFlags> flags) {
  std::vector<VkQueueFamilyProperties> families;
  for (const VkQueueFlags of : flags) families.push_back({of, 1, 64, {1, 1, 1}});
  return transfer_family(families);
}

TEST(TransferFamily, IsTheFirstThatOnlyCopies) {
  EXPECT_EQ(chosen({graphics | compute | transfer | sparse, transfer | sparse, compute | transfer | sparse, transfer}), 1u);
  EXPECT_EQ(chosen({graphics | compute | transfer, compute | transfer, transfer}), 2u);
}

TEST(TransferFamily, IsNoneOfVideoOrOpticalFlow) {
  EXPECT_EQ(chosen({graphics | compute | transfer, transfer | video, transfer | optical_flow, transfer | sparse}), 3u);
  EXPECT_EQ(chosen({graphics | compute | transfer, transfer | video}), std::nullopt);
}

TEST(TransferFamily, IsMissingWhereEveryFamilyComputesOrNoneCopies) {
  EXPECT_EQ(chosen({}), std::nullopt);
  EXPECT_EQ(chosen({graphics | compute | transfer}), std::nullopt);
  EXPECT_EQ(chosen({graphics | compute | transfer, compute | transfer | sparse, graphics | transfer, sparse}), std::nullopt);
}

}  // namespace
}  // namespace quern::vulkan
