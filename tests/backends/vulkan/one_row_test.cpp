// Products of one row: which share a launch, and how its workgroups are shared out.
#include "one_row.hpp"

#include <gtest/gtest.h>

namespace quern::vulkan {
namespace {

OneRowProduct product(quern_dtype format, uint n) {
  OneRowProduct p{};
  p.params.x = 4096;
  p.params.other = 8192;
  p.params.n = n;
  p.format = static_cast<int>(format);
  p.mode = 1;
  p.k = 4096;
  return p;
}

CardFacts card_of(std::uint32_t multiprocessors) {
  CardFacts card;
  card.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  card.multiprocessors = multiprocessors;
  card.group_limit = 1024;
  card.subgroup = card.subgroup_least = 32;
  return card;
}

TEST(OneRow, QueriesKeysAndValuesShareALaunchByTheirBytes) {
  std::vector<OneRowProduct> products{product(QUERN_Q4_K, 4096)};
  const OneRowProduct keys = product(QUERN_Q4_K, 4096), values = product(QUERN_Q6_K, 4096);
  ASSERT_TRUE(share_launch(products, keys));
  products.push_back(keys);
  ASSERT_TRUE(share_launch(products, values));
  products.push_back(values);
  const OneRowLaunch launch = one_row_launch(products, card_of(132));
  EXPECT_EQ(launch.groups, 132);
  // 144, 144 and 210 bytes for 256 weights: 132 x 144 / 498 = 38.2 and twice that 76.3.
  EXPECT_EQ(launch.params.begins, 38u | 76u << 16);
  EXPECT_EQ(launch.other_format, static_cast<std::int32_t>(QUERN_Q6_K));
  EXPECT_EQ(launch.parts_of_other, 4);
}

TEST(OneRow, EachProductHasAWorkgroupAndNoneHasIdleOnes) {
  const OneRowLaunch launch = one_row_launch({product(QUERN_Q8_0, 4096), product(QUERN_Q8_0, 2), product(QUERN_Q8_0, 2)}, card_of(132));
  EXPECT_EQ(launch.params.begins, 132u | 133u << 16);
  EXPECT_EQ(launch.groups, 134);
  EXPECT_EQ(one_row_launch({product(QUERN_Q8_0, 100)}, card_of(132)).groups, 50);
  EXPECT_EQ(one_row_launch({product(QUERN_Q8_0, 0)}, card_of(132)).groups, 1);
}

TEST(OneRow, ARowOfFloatsHasATableBesideItAsOftenAsThereIsRoom) {
  CardFacts card = card_of(132);
  card.shared_limit = 48 << 10;
  const auto of = [&](quern_dtype format, uint k) {
    OneRowProduct p = product(format, 4096);
    p.k = k;
    return one_row_launch({p}, card);
  };
  EXPECT_EQ(of(QUERN_NF4_64, 4096).copies, 16);
  EXPECT_FALSE(of(QUERN_NF4_64, 4096).half_row);
  EXPECT_EQ(of(QUERN_NF4_64, 11008).copies, 16);  // 43 KiB and 16 are more than 47, 22.8 and 16 are not
  EXPECT_TRUE(of(QUERN_NF4_64, 11008).half_row);
  EXPECT_EQ(of(QUERN_FP4_64, 18944).copies, 4);  // 47 KiB less 39.3
  EXPECT_EQ(of(QUERN_F8_128, 11008).copies, 1);
  EXPECT_FALSE(of(QUERN_F8_128, 11008).half_row);
  EXPECT_TRUE(of(QUERN_F8_128, 14336).half_row);
  EXPECT_FALSE(of(QUERN_BF16, 11008).half_row);
  EXPECT_EQ(one_row_bytes(QUERN_NF4_64, 11008), 11008u * 2 + 11008 / 8 + 1024 + 1024);
  EXPECT_EQ(one_row_bytes(QUERN_F16, 11008), 11008u * 4 + 1024);
  EXPECT_EQ(one_row_bytes(QUERN_Q4_Z128, 11008), 11008u * 5 / 2 + 1024);
  // No more than a row has: 32 lanes by 16 bytes.
  EXPECT_EQ(of(QUERN_F8_128, 11008).loads, 4);
  EXPECT_EQ(of(QUERN_F8_128, 1024).loads, 2);
  EXPECT_EQ(of(QUERN_NF4_64, 2048).loads, 2);
  EXPECT_EQ(of(QUERN_NF4_64, 576).loads, 1);
}

TEST(OneRow, ASoftwareDeviceHasMoreWorkgroupsWhereLoopsWouldGrowTooLong) {
  CardFacts card = card_of(0);
  card.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  EXPECT_EQ(one_row_launch({product(QUERN_BF16, 4096)}, card).groups, 4);
  EXPECT_EQ(one_row_launch({product(QUERN_BF16, 152064)}, card).groups, 74);  // 152,064 x 4,096 / 2^23
}

TEST(OneRow, OthersAreLaunchedAlone) {
  const std::vector<OneRowProduct> one{product(QUERN_Q4_K, 64)};
  const std::vector<OneRowProduct> two{product(QUERN_Q4_K, 64), product(QUERN_Q6_K, 64)};
  EXPECT_TRUE(share_launch(two, product(QUERN_Q6_K, 64)));
  EXPECT_FALSE(share_launch(two, product(QUERN_Q5_K, 64)));  // a third format
  EXPECT_FALSE(share_launch(one, product(QUERN_F16, 64)));
  EXPECT_TRUE(share_launch({product(QUERN_F8_128, 64)}, product(QUERN_F8_128, 64)));
  EXPECT_FALSE(share_launch({product(QUERN_F8_128, 64)}, product(QUERN_F16, 64)));  // floats of another format
  EXPECT_FALSE(share_launch({product(QUERN_F8_128, 64)}, product(QUERN_Q8_0, 64)));
  EXPECT_FALSE(share_launch({one[0], one[0], one[0]}, one[0]));
  const auto refused = [&](auto&& change) {
    OneRowProduct next = one[0];
    change(next);
    return !share_launch(one, next) && !share_launch({next}, one[0]);
  };
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.params.x += 16; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.params.other += 16; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.params.c = 16; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.params.epsilon = 1e-6f; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.params.offset = 1; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.params.bias_dtype = QUERN_F16; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.mode = 0; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.k = 2048; }));
  EXPECT_TRUE(refused([](OneRowProduct& p) { p.paired = true; }));
}

}  // namespace
}  // namespace quern::vulkan
