// Page bookkeeping: what is reserved, shared and given back.
#include "kv_pages.hpp"

#include <gtest/gtest.h>

namespace quern::runtime {
namespace {

TEST(KvPages, GivesWholePagesAndTakesThemBack) {
  KvPages pages(4, 8, 2, 4);
  EXPECT_TRUE(pages.reserve(0, 9));  // two pages of 8
  EXPECT_EQ(pages.free_pages(), 2u);
  EXPECT_EQ(pages.pages_of(0).size(), 2u);
  pages.truncate(0, 8);
  EXPECT_EQ(pages.pages_of(0).size(), 1u);
  EXPECT_EQ(pages.free_pages(), 3u);
}

TEST(KvPages, RefusesWithoutChangingAnything) {
  KvPages pages(3, 8, 2, 4);
  ASSERT_TRUE(pages.reserve(0, 16));
  EXPECT_FALSE(pages.reserve(1, 16));  // one page is left
  EXPECT_EQ(pages.free_pages(), 1u);
  EXPECT_TRUE(pages.pages_of(1).empty());
  EXPECT_FALSE(pages.reserve(0, 33));  // five pages, four a sequence
}

TEST(KvPages, TwoSequencesNeverOwnAPageUnlessTheyShareIt) {
  KvPages pages(8, 4, 2, 4);
  ASSERT_TRUE(pages.reserve(0, 16));
  ASSERT_TRUE(pages.reserve(1, 16));
  for (const std::int32_t a : pages.pages_of(0)) {
    for (const std::int32_t b : pages.pages_of(1)) EXPECT_NE(a, b);
  }
}

TEST(KvPages, ASharedPageIsFreedWithItsLastOwner) {
  KvPages pages(4, 4, 2, 4);
  ASSERT_TRUE(pages.reserve(0, 10));
  EXPECT_EQ(pages.share_prefix(0, 1, 10), 8u);  // the third page is not full
  EXPECT_EQ(pages.pages_of(1)[1], pages.pages_of(0)[1]);
  pages.truncate(0, 0);
  EXPECT_EQ(pages.free_pages(), 2u);
  pages.truncate(1, 0);
  EXPECT_EQ(pages.free_pages(), 4u);
}

TEST(KvPages, SaysOnceThatTheTableChanged) {
  KvPages pages(2, 4, 1, 2);
  EXPECT_TRUE(pages.take_changed());
  EXPECT_FALSE(pages.take_changed());
  ASSERT_TRUE(pages.reserve(0, 1));
  EXPECT_TRUE(pages.take_changed());
}

}  // namespace
}  // namespace quern::runtime
