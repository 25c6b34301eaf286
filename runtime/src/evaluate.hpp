// Teacher-forced reading of given ids: what the model would have said at each position.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

struct Evaluation {
  std::vector<std::int32_t> argmax;  // after reading each token; the lowest id of equals
  std::vector<float> margin;         // best minus second-best logit
  std::vector<float> nll;            // of the next token, NaN at the last
  double nll_sum = 0;
  std::vector<float> logits;  // of the kept positions, one after another
  double seconds = 0;
};

/// What a text to be read must be: ids of the vocabulary, at least one, that fit the context, for a sequence that is there. `what` is
/// what shall be done to it. Throws Error(QUERN_INVALID_ARGUMENT), Error(QUERN_CONTEXT_FULL).
void check_ids(const Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, const char* what);

enum class KeepLogits { none, last, all };

/// Forgets what the sequence held. `progress` returns false to end it. Throws Error(QUERN_INVALID_ARGUMENT), Error(QUERN_CONTEXT_FULL), Error(QUERN_CANCELLED).
Evaluation evaluate(Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, KeepLogits keep,
                    const std::function<bool(std::uint64_t done)>& progress = {});

}  // namespace quern::runtime
