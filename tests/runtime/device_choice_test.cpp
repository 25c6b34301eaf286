// Which device is first for a graph, from what each would make of it.
#include "device_choice.hpp"

#include <gtest/gtest.h>

namespace quern::test {
namespace {

using runtime::best_of;
using runtime::Outcome;

TEST(DeviceChoice, AWholeDeviceComesBeforeAPartialOneAheadOfIt) {
  const Outcome outcomes[] = {{"a:0", 299, 300, 2}, {"b:0", 300, 300, 0}, {"c:0", 300, 300, 0}};
  EXPECT_EQ(best_of(outcomes), 1u);
}

TEST(DeviceChoice, AmongPartialOnesTheFewestCrossingsWin) {
  const Outcome outcomes[] = {{"a:0", 290, 300, 9}, {"b:0", 100, 300, 4}, {"c:0", 200, 300, 4}};
  EXPECT_EQ(best_of(outcomes), 1u);
}

TEST(DeviceChoice, TheFirstStaysWhereNoneIsBetter) {
  const Outcome outcomes[] = {{"a:0", 10, 300, 4}, {"b:0", 200, 300, 4}};
  EXPECT_EQ(best_of(outcomes), 0u);
}

TEST(DeviceChoice, TheWordsHaveTheCounts) {
  const Outcome toy{"toy:0", 61, 301, 121}, cpu{"cpu:0", 301, 301, 0}, other{"other:0", 300, 301, 1};
  EXPECT_EQ(words_of_choice(toy, cpu, "cpu:0"),
            "toy:0 computes 61 of 301 nodes, and 121 values would cross between it and cpu:0 in each step; cpu:0 computes all of them");
  EXPECT_EQ(
      words_of_choice(toy, other, "cpu:0"),
      "toy:0 computes 61 of 301 nodes, and 121 values would cross between it and cpu:0 in each step; other:0 computes 300, and 1 value crosses");
}

}  // namespace
}  // namespace quern::test
