// Answers requests: prompts into the cache, tokens drawn one step at a time, all requests in one batch.
#pragma once

#include "engine.hpp"

#include <functional>
#include <string>
#include <vector>

namespace quern::runtime {

enum class Finish : std::uint32_t { none = 0, end = 1, stop = 2, length = 3, context = 4, cancelled = 5, loop = 6 };

struct Sampling {
  float temperature = 0;
  float top_p = 0;
  float min_p = 0;
  float repeat_penalty = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint32_t penalty_window = 0;
  std::uint32_t top_k = 0;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> bias_tokens;
  std::vector<float> bias_values;
};

/// One of the best alternatives at a position.
struct Alternative {
  std::int32_t token;
  float logprob;
};

struct TokenEvent {
  std::int32_t token = -1;
  std::string piece;
  float logprob = 0;
  std::vector<Alternative> top;
};

struct Request {
  std::vector<std::int32_t> prompt;
  std::uint32_t sequence = 0;
  bool append = false;
  Sampling sampling;
  std::uint64_t max_tokens = 0;
  std::vector<std::string> stops;
  std::uint32_t logprobs = 0;
  bool ignore_end = false;
  bool loop_guard = false;
  std::function<bool(const TokenEvent&)> on_token;  // false ends this request
};

struct Answer {
  std::vector<std::int32_t> ids;
  std::string text;
  Finish finish = Finish::none;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t reused_tokens = 0;
  double prompt_seconds = 0;
  double decode_seconds = 0;
  std::vector<float> logprobs;
  std::vector<std::vector<Alternative>> top;
};

/// Running totals over the life of a session.
struct GenerationTotals {
  std::uint64_t tokens_prefill = 0, tokens_decode = 0;
  double seconds_prefill = 0, seconds_decode = 0;
};

/// Checks all requests, then answers them. Throws Error(QUERN_INVALID_ARGUMENT) naming request and member, and
/// Error(QUERN_CONTEXT_FULL) with both numbers, before anything is computed.
std::vector<Answer> generate(Engine& engine, std::vector<Request> requests, GenerationTotals& totals);

/// The n best of softmax(logits), best first, ties to the lowest id.
std::vector<Alternative> best_alternatives(std::span<const float> logits, std::uint32_t n);

}  // namespace quern::runtime
