#include "quern/base/progress_line.hpp"

#include "quern/base/terminal_output.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

ProgressState state(std::uint64_t done, std::uint64_t total, double seconds = 0, const char* item = nullptr) {
  return {"loading", "model.gguf", item, done, total, 0, seconds};
}

TEST(ProgressLine, HasBytesSpeedAndTimeLeft) {
  EXPECT_EQ(progress_line(state(1ull << 30, 2ull << 30, 4), 120),
            "loading model.gguf [####################....................] 50 %, 1.0 of 2.0 GiB, 256.0 MiB/s, 4 s left");
  EXPECT_EQ(progress_line(state(50, 200, 10, "tokens"), 120),
            "loading model.gguf [##########..............................] 25 %, 50 of 200 tokens, 5.0 tokens/s, 30 s left");
}

TEST(ProgressLine, WhatWasThereBeforeIsNoSpeed) {
  ProgressState resumed = state(3ull << 30, 4ull << 30, 2);
  resumed.first = 2ull << 30;
  EXPECT_NE(progress_line(resumed, 120).find("512.0 MiB/s, 2 s left"), std::string::npos);
}

TEST(ProgressLine, ASpeedTakesASecondToMeasure) { EXPECT_EQ(progress_line(state(1, 4, 0.5), 100).find("/s"), std::string::npos); }

TEST(ProgressLine, IsNarrowerThanTheWindow) {
  for (int columns = 20; columns < 140; ++columns) {
    for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{7} << 30}) {
      const std::string line = progress_line(state(3ull << 30, total, 9), columns);
      EXPECT_LT(columns_of(line), static_cast<std::size_t>(std::max(21, columns))) << line;
    }
  }
}

TEST(ProgressLine, ATotalThatIsNotKnownHasNoBar) {
  EXPECT_EQ(progress_line(state(3 << 20, 0, 3), 100), "loading model.gguf 3.0 MiB, 1.0 MiB/s");
}

TEST(ProgressLine, EscapesItsLabelAndEndsAtAHundredPercent) {
  EXPECT_EQ(progress_line({"loading", "a\x1b[2J\u202e", nullptr, 300, 200, 0, 0}, 80).substr(0, 24), "loading a\\x1b[2J\\u202e [");
  EXPECT_NE(progress_line(state(300, 200), 80).find("] 100 %"), std::string::npos);
}

TEST(DurationWords, AreShort) {
  EXPECT_EQ(duration_words(0.2), "1 s");
  EXPECT_EQ(duration_words(59), "59 s");
  EXPECT_EQ(duration_words(200), "3 min");
  EXPECT_EQ(duration_words(7500), "2 h 5 min");
}

}  // namespace
}  // namespace quern
