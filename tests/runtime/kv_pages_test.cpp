// Page bookkeeping: what is reserved, shared, copied and given back, over pages whose contents are numbers.
#include "kv_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace quern::runtime {
namespace {

const KvPages::CopyPage no_copy = [](std::int32_t from, std::int32_t to) { ADD_FAILURE() << "page " << from << " was copied to " << to; };

TEST(KvPages, GivesWholePagesAndTakesThemBack) {
  KvPages pages(4, 8, 2, 4, no_copy);
  EXPECT_TRUE(pages.reserve(0, 0, 9));  // two pages of 8
  EXPECT_EQ(pages.free_pages(), 2u);
  EXPECT_EQ(pages.pages_of(0).size(), 2u);
  pages.truncate(0, 8);
  EXPECT_EQ(pages.pages_of(0).size(), 1u);
  EXPECT_EQ(pages.free_pages(), 3u);
}

TEST(KvPages, RefusesWithoutChangingAnything) {
  KvPages pages(3, 8, 2, 4, no_copy);
  ASSERT_TRUE(pages.reserve(0, 0, 16));
  EXPECT_FALSE(pages.reserve(1, 0, 16));  // one page is left
  EXPECT_EQ(pages.free_pages(), 1u);
  EXPECT_TRUE(pages.pages_of(1).empty());
  EXPECT_FALSE(pages.reserve(0, 16, 33));  // five pages, four a sequence
}

TEST(KvPages, TwoSequencesNeverOwnAPageUnlessTheyShareIt) {
  KvPages pages(8, 4, 2, 4, no_copy);
  ASSERT_TRUE(pages.reserve(0, 0, 16));
  ASSERT_TRUE(pages.reserve(1, 0, 16));
  for (const std::int32_t a : pages.pages_of(0)) {
    for (const std::int32_t b : pages.pages_of(1)) EXPECT_NE(a, b);
  }
}

TEST(KvPages, ASharedPageIsFreedWithItsLastOwner) {
  KvPages pages(4, 4, 2, 4, no_copy);
  ASSERT_TRUE(pages.reserve(0, 0, 10));
  pages.share(0, 1);
  EXPECT_EQ(pages.free_pages(), 1u);  // the third page, which is not full, is shared too
  EXPECT_EQ(pages.pages_of(1)[2], pages.pages_of(0)[2]);
  pages.truncate(0, 0);
  EXPECT_EQ(pages.free_pages(), 1u);
  pages.truncate(1, 0);
  EXPECT_EQ(pages.free_pages(), 4u);
}

TEST(KvPages, SaysThatTheTableChangedUntilThatIsKnown) {
  KvPages pages(2, 4, 1, 2, no_copy);
  EXPECT_TRUE(pages.changed());
  pages.mark_known();
  EXPECT_FALSE(pages.changed());
  ASSERT_TRUE(pages.reserve(0, 0, 1));
  EXPECT_TRUE(pages.changed());
}

TEST(KvPages, OnlyTheFirstOfTwoOwnersThatGoesOnCopiesAPage) {
  std::vector<std::pair<std::int32_t, std::int32_t>> copies;
  KvPages pages(4, 4, 2, 2, [&](std::int32_t from, std::int32_t to) { copies.emplace_back(from, to); });
  ASSERT_TRUE(pages.reserve(0, 0, 6));
  pages.share(0, 1);
  const std::int32_t full = pages.pages_of(0)[0], last = pages.pages_of(0)[1];
  ASSERT_TRUE(pages.reserve(1, 6, 7));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].first, last);
  EXPECT_EQ(copies[0].second, pages.pages_of(1)[1]);
  EXPECT_EQ(pages.pages_of(0)[1], last);
  EXPECT_EQ(pages.pages_of(1)[0], full);  // nobody writes there
  ASSERT_TRUE(pages.reserve(0, 6, 8));
  ASSERT_TRUE(pages.reserve(1, 7, 8));
  EXPECT_EQ(copies.size(), 1u);
}

TEST(KvPages, ACopyThatFailsOrHasNoPageChangesNothing) {
  bool fails = true;
  KvPages pages(2, 4, 2, 2, [&](std::int32_t, std::int32_t) {
    if (fails) throw std::runtime_error("no device");
  });
  ASSERT_TRUE(pages.reserve(0, 0, 2));
  pages.share(0, 1);
  const std::int32_t shared = pages.pages_of(0)[0];
  EXPECT_THROW(pages.reserve(1, 2, 3), std::runtime_error);
  EXPECT_EQ(pages.pages_of(1)[0], shared);
  EXPECT_EQ(pages.free_pages(), 1u);
  fails = false;
  EXPECT_FALSE(pages.reserve(1, 2, 5));  // a copy and one more page: two of one that is free
  EXPECT_EQ(pages.pages_of(1).size(), 1u);
  EXPECT_EQ(pages.pages_of(1)[0], shared);
  ASSERT_TRUE(pages.reserve(1, 2, 3));
  EXPECT_NE(pages.pages_of(1)[0], shared);
  EXPECT_EQ(pages.pages_of(0)[0], shared);
}

/// Sequences over shared pages beside the same sequences as lists of their own. It does what Engine does, with a number for each row.
class Cache {
 public:
  static constexpr std::uint32_t sequences = 7, page_size = 4, pages_each = 6, context = page_size * pages_each,
                                 all_pages = sequences * pages_each;

  void append(std::uint32_t slot, std::uint32_t count) {
    const auto held = static_cast<std::uint32_t>(own_[slot].size());
    ASSERT_TRUE(pages_.reserve(slot, held, held + count)) << "a sequence does not get its own share of the pages";
    for (std::uint32_t i = 0; i < count; ++i) write(slot, held + i);
  }
  void append_with_a_copy_that_fails(std::uint32_t slot) {
    const auto held = static_cast<std::uint32_t>(own_[slot].size());
    const std::uint64_t before = copies_;
    fails_ = true;
    try {
      pages_.reserve(slot, held, held + 1);
    } catch (const std::runtime_error&) { ++failed_; }
    fails_ = false;
    EXPECT_EQ(copies_, before);
    pages_.truncate(slot, held);
  }
  void cut(std::uint32_t slot, std::uint32_t length) {
    own_[slot].resize(length);
    pages_.truncate(slot, length);
  }
  void copy(std::uint32_t from, std::uint32_t to) {
    if (from == to) return;
    cut(to, 0);
    pages_.share(from, to);
    own_[to] = own_[from];
  }
  std::vector<int> saved(std::uint32_t slot) const {
    std::vector<int> rows;
    for (std::uint32_t i = 0; i < own_[slot].size(); ++i) rows.push_back(row(slot, i));
    return rows;
  }
  void restore(std::uint32_t slot, const std::vector<int>& rows) {
    cut(slot, 0);
    ASSERT_TRUE(pages_.reserve(slot, 0, static_cast<std::uint32_t>(rows.size())));
    for (std::uint32_t i = 0; i < rows.size(); ++i) const_cast<int&>(row(slot, i)) = rows[i];
    own_[slot] = rows;
  }
  void check() const {
    std::set<std::int32_t> in_use;
    for (std::uint32_t s = 0; s < sequences; ++s) {
      ASSERT_EQ(saved(s), own_[s]) << "sequence " << s;
      ASSERT_EQ(pages_.pages_of(s).size(), pages_.pages_for(own_[s].size()));
      in_use.insert(pages_.pages_of(s).begin(), pages_.pages_of(s).end());
    }
    ASSERT_EQ(pages_.free_pages(), all_pages - in_use.size());
  }
  std::uint32_t length(std::uint32_t slot) const { return static_cast<std::uint32_t>(own_[slot].size()); }
  std::uint64_t copies() const { return copies_; }
  std::uint64_t failed() const { return failed_; }

 private:
  const int& row(std::uint32_t slot, std::uint32_t position) const {
    return contents_[static_cast<std::size_t>(pages_.pages_of(slot)[position / page_size])][position % page_size];
  }
  void write(std::uint32_t slot, std::uint32_t position) {
    const_cast<int&>(row(slot, position)) = ++last_;
    own_[slot].push_back(last_);
  }

  std::vector<std::array<int, page_size>> contents_ = std::vector<std::array<int, page_size>>(all_pages);
  std::vector<std::vector<int>> own_ = std::vector<std::vector<int>>(sequences);
  int last_ = 0;
  bool fails_ = false;
  std::uint64_t copies_ = 0, failed_ = 0;
  KvPages pages_{all_pages, page_size, sequences, pages_each, [this](std::int32_t from, std::int32_t to) {
                   if (fails_) throw std::runtime_error("no device");
                   contents_[static_cast<std::size_t>(to)] = contents_[static_cast<std::size_t>(from)];
                   ++copies_;
                 }};
};

TEST(KvPages, AHundredThousandOperationsLeaveEachSequenceWhatItWouldHoldAlone) {
  std::mt19937 random(30);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Cache cache;
  std::vector<std::vector<int>> states(4);
  for (int operation = 0; operation < 100000; ++operation) {
    const std::uint32_t slot = below(Cache::sequences), room = Cache::context - cache.length(slot);
    switch (below(8)) {
      case 0:
      case 1: cache.copy(slot, below(Cache::sequences)); break;
      case 2: cache.cut(slot, below(cache.length(slot) + 1)); break;
      case 3: states[below(4)] = cache.saved(slot); break;
      case 4:
        if (below(4) == 0) cache.restore(slot, states[below(4)]);
        break;
      case 5:
        if (room > 0) cache.append_with_a_copy_that_fails(slot);
        break;
      default: cache.append(slot, std::min(room, 1 + below(below(10) == 0 ? Cache::context : 3))); break;
    }
    cache.check();
    if (HasFatalFailure()) FAIL() << "operation " << operation;
  }
  EXPECT_GT(cache.copies(), 5000u);
  EXPECT_GT(cache.failed(), 1000u);
}

}  // namespace
}  // namespace quern::runtime
