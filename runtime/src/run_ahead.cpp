// See run_ahead.hpp.
#include "run_ahead.hpp"

namespace quern::runtime {

RunAhead run_ahead_of(const models::StepGraph& step) {
  if (step.sampled == graph::no_value) return {};
  return {most_followers,
          {{step.tokens, 1}, {step.outputs, 1}},
          step.sampled,
          step.token,
          {step.position, step.sampler_step, step.sampled, step.logprob}};
}

}  // namespace quern::runtime
