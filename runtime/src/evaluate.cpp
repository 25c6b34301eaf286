// See evaluate.hpp.
#include "evaluate.hpp"

#include "model.hpp"

#include "quern/base/byte_sizes.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace quern::runtime {
namespace {

struct Best {
  std::int32_t index;
  float margin;
};

Best best_of(std::span<const float> logits) {
  std::size_t best = 0;
  float second = -INFINITY;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) {
      second = logits[best];
      best = i;
    } else {
      second = std::max(second, logits[i]);
    }
  }
  return {static_cast<std::int32_t>(best), logits[best] - second};
}

double log_sum_exp(std::span<const float> logits, float best) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - best);
  return best + std::log(sum);
}

}  // namespace

void check_ids(const Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, const char* what) {
  const std::uint32_t vocabulary = engine.model().shape().vocabulary;
  if (sequence >= engine.sequences()) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("sequence is ", sequence, " but the session has ", engine.sequences()));
  }
  if (ids.empty()) throw Error(QUERN_INVALID_ARGUMENT, concat("there are no tokens to ", what));
  if (ids.size() > engine.context()) {
    throw Error(QUERN_CONTEXT_FULL, concat("the text has ", counted(ids.size(), "token"), " but the context is ", engine.context(),
                                           "; load with a larger context or give a shorter text"));
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= vocabulary) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("token ", id, " is outside the vocabulary of ", vocabulary));
    }
  }
}

Evaluation evaluate(Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, KeepLogits keep,
                    const std::function<bool(std::uint64_t done)>& progress) {
  const std::uint32_t vocabulary = engine.model().shape().vocabulary;
  check_ids(engine, sequence, ids, "evaluate");
  const auto began = std::chrono::steady_clock::now();
  engine.clear_cancel();
  engine.truncate(sequence, 0);
  Evaluation result;
  result.nll.assign(ids.size(), std::nanf(""));
  std::vector<float> logits(vocabulary);
  std::vector<Row> rows;
  if (keep == KeepLogits::all) result.logits.reserve(ids.size() * vocabulary);
  const std::vector<SamplerInput> greedy(engine.max_outputs());
  for (std::size_t at = 0; at < ids.size();) {
    if (engine.cancel_requested()) throw Error(QUERN_CANCELLED, "the evaluation was cancelled");
    const std::size_t count = std::min<std::size_t>(engine.max_outputs(), ids.size() - at);
    rows.clear();
    for (std::size_t i = 0; i < count; ++i) rows.push_back({sequence, ids[at + i], true});
    engine.step(rows, std::span(greedy).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      engine.logits(static_cast<std::uint32_t>(i), logits);
      if (keep == KeepLogits::all) result.logits.insert(result.logits.end(), logits.begin(), logits.end());
      const Best best = best_of(logits);
      result.argmax.push_back(best.index);
      result.margin.push_back(best.margin);
      if (at + i + 1 == ids.size()) break;
      const auto next = static_cast<std::size_t>(ids[at + i + 1]);
      const double nll = log_sum_exp(logits, logits[static_cast<std::size_t>(best.index)]) - logits[next];
      result.nll[at + i] = static_cast<float>(nll);
      result.nll_sum += nll;
    }
    at += count;
    if (progress && !progress(at)) throw Error(QUERN_CANCELLED, "the evaluation was cancelled");
  }
  if (keep == KeepLogits::last) result.logits = std::move(logits);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace quern::runtime
