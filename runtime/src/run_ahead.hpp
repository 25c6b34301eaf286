// Steps of one row that the host hands to a device before it has seen what the one before drew: "followers".
//
// The device goes from one to the next without waiting for the host, which costs 10 us of a step by CUDA and 50 by Vulkan. Each follower is an
// instance of the step's plan with bounds of one row. Its token is bound to what the run before it drew, so it does not pass the host. What the
// host writes for each step, or reads of it, lies in memory of its own.
//
// A synchronous device takes them in one submit with the step before them, and is done with all when it returns. Any other takes each in a
// submit of its own; one more then goes behind those in flight whenever the host has taken a token.
#pragma once

#include "plan.hpp"

#include "quern/models/architecture.hpp"

#include <vector>

namespace quern::runtime {

/// At most so many steps follow one. Three: of the host's time a step of its four keeps a quarter.
constexpr std::uint32_t most_followers = Plan::most_followers;

struct RunAhead {
  std::uint32_t followers = 0;
  std::vector<RunBound> bounds;                                     // of a follower
  graph::ValueId drawn = graph::no_value, token = graph::no_value;  // of a run; of the one behind it
  std::vector<graph::ValueId> own;                                  // what each follower has for itself
};

/// What a model's step needs for it.
RunAhead run_ahead_of(const models::StepGraph& step);

}  // namespace quern::runtime
