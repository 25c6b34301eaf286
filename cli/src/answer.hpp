// One answer: a prompt's ids in, pieces of text while it is made, ids and timings at the end.
#pragma once

#include "activity.hpp"
#include "command_line.hpp"
#include "interrupt.hpp"
#include "shapes.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quern::cli {

struct Answer {
  std::vector<std::int32_t> ids;
  std::string text;
  std::uint32_t finish = 0;  // QUERN_FINISH_...
  std::uint64_t reused_tokens = 0;
  double prompt_seconds = 0;
  double decode_seconds = 0;
  std::vector<float> logprobs;
  std::vector<std::vector<Alternative>> best;

  /// Of the decode steps; the first token comes out of the prompt.
  double tokens_per_second() const { return ids.empty() ? 0 : rate(ids.size() - 1, decode_seconds); }
};

/// Gets each event of an answer as it comes, the pieces of its text among them. What it throws ends the answer.
using TokenSink = std::function<void(const quern_token_event&)>;

/// Generates on sequence 0 of the session, which may hold an earlier start of the prompt. A SIGINT that the guard saw ends
/// the answer with what there is. `activity` counts its tokens. An empty sink is none.
Answer answer(quern_session* session, const std::vector<std::int32_t>& prompt, const RunFlags& flags, std::uint64_t seed,
              const TokenSink& sink, const InterruptGuard& guard, ActivityWriter& activity);

/// Throws Failure(exit_context) where a prompt of so many tokens leaves no room for an answer; `what` it is, as "the prompt".
void check_context(const quern_model* model, std::uint64_t tokens, const std::string& what);

/// Writes why an answer was ended that went in circles; nothing of another.
void explain_loop(const Answer& made);

/// The seed that was asked for, or a random one.
std::uint64_t seed_of(const SamplingFlags& flags);

}  // namespace quern::cli
