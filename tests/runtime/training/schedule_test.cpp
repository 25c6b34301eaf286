#include "quern/training/schedule.hpp"

#include "quern/graph/json.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace quern::training {
namespace {

const std::map<std::string, ScheduleKind> kinds = {{"constant", ScheduleKind::constant},
                                                   {"constant_with_warmup", ScheduleKind::constant_with_warmup},
                                                   {"linear", ScheduleKind::linear},
                                                   {"cosine", ScheduleKind::cosine},
                                                   {"cosine_with_restarts", ScheduleKind::cosine_with_restarts},
                                                   {"polynomial", ScheduleKind::polynomial},
                                                   {"cosine_with_min_lr", ScheduleKind::cosine_with_min_lr},
                                                   {"inverse_sqrt", ScheduleKind::inverse_sqrt}};

std::optional<double> option(const Json& kwargs, const char* name) {
  const Json* value = kwargs.find(name);
  return value == nullptr ? std::nullopt : value->number();
}

Schedule schedule_of(const Json& golden) {
  const Json& kwargs = *golden.find("kwargs");
  return {kinds.at(*golden.find("lr_scheduler")->text()),
          *golden.find("learning_rate")->number(),
          *golden.find("warmup_steps")->count(),
          *golden.find("steps")->count(),
          {option(kwargs, "num_cycles"), option(kwargs, "power"), option(kwargs, "lr_end"), option(kwargs, "min_lr"),
           option(kwargs, "min_lr_rate"), option(kwargs, "timescale")}};
}

TEST(Schedule, RatesAreThoseOfTransformers) {
  std::ifstream file(QUERN_SOURCE_DIR "/tests/data/training/schedules.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto goldens = Json::parse(text);
  ASSERT_TRUE(goldens);
  ASSERT_EQ(goldens->list()->size(), 24u);
  for (const Json& golden : *goldens->list()) {
    const Schedule schedule = schedule_of(golden);
    const Json::List& rates = *golden.find("lr")->list();
    ASSERT_EQ(rates.size(), schedule.steps);
    for (std::size_t step = 0; step < rates.size(); ++step) {
      const double expected = *rates[step].number();
      EXPECT_NEAR(exact_rate(schedule, step), expected, 1e-12 * expected) << *golden.find("lr_scheduler")->text() << ", step " << step;
      EXPECT_EQ(f32_rate(schedule, step), static_cast<float>(exact_rate(schedule, step)));
    }
  }
}

TEST(Schedule, TheFirstRateIsZeroOnlyWithWarmup) {
  EXPECT_EQ(exact_rate({ScheduleKind::cosine, 1e-3, 2, 10, {}}, 0), 0);
  EXPECT_EQ(exact_rate({ScheduleKind::cosine, 1e-3, 0, 10, {}}, 0), 1e-3);
}

TEST(Schedule, AWarmupLongerThanTheRunNeverEnds) {
  for (const auto& [name, kind] : kinds) {
    if (kind == ScheduleKind::constant) continue;
    const Schedule schedule{kind, 1, 100, 10, {}};
    for (std::uint64_t step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(exact_rate(schedule, step), static_cast<double>(step) / 100) << name;
  }
}

TEST(Schedule, EveryRateIsFiniteAtAndBehindTheEnd) {
  for (const auto& [name, kind] : kinds)
    for (const std::uint64_t steps : {0, 1, 2, 7})
      for (const std::uint64_t warmup : {0, 1, 7, 20})
        for (std::uint64_t step = 0; step < 30; ++step) {
          const double at = exact_rate({kind, 1e-3, warmup, steps, {}}, step);
          EXPECT_TRUE(at >= 0 && at <= 1e-3) << name << " " << steps << " " << warmup << " " << step << ": " << at;
        }
}

TEST(Schedule, MinLrIsARateAndMinLrRateAShare) {
  const ScheduleOptions by_rate{.min_lr = 2e-4}, by_share{.min_lr_rate = 0.2};
  for (std::uint64_t step = 0; step < 10; ++step)
    EXPECT_DOUBLE_EQ(exact_rate({ScheduleKind::cosine_with_min_lr, 1e-3, 2, 10, by_rate}, step),
                     exact_rate({ScheduleKind::cosine_with_min_lr, 1e-3, 2, 10, by_share}, step));
}

TEST(Steps, TheLastWindowOfAnEpochMayBeShort) {
  EXPECT_EQ(steps_of_epoch(10, 4), 3u);
  EXPECT_EQ(steps_of_epoch(12, 4), 3u);
  EXPECT_EQ(steps_of_epoch(0, 4), 0u);
  EXPECT_EQ(steps_of_epoch(~std::uint64_t{0}, 2), std::uint64_t{1} << 63);
}

TEST(Steps, EpochsRoundUpAndMaxStepsWins) {
  EXPECT_EQ(steps_of_run(10, 4, 2, {}), 6u);
  EXPECT_EQ(steps_of_run(10, 4, 0.5, {}), 2u);
  EXPECT_EQ(steps_of_run(10, 4, 2, 10), 10u);
}

TEST(Steps, WarmupOfARatioRoundsUp) {
  EXPECT_EQ(warmup_of_ratio(0.1, 60), 6u);
  EXPECT_EQ(warmup_of_ratio(0.1, 61), 7u);
  EXPECT_EQ(warmup_of_ratio(0, 61), 0u);
  EXPECT_EQ(warmup_of_ratio(1, 61), 61u);
}

}  // namespace
}  // namespace quern::training
