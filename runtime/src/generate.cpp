// See generate.hpp.
#include "generate.hpp"

#include "answer_text.hpp"
#include "loop_guard.hpp"
#include "model.hpp"

#include "quern/base/byte_sizes.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

namespace quern::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::uint32_t default_penalty_window = 64;
constexpr std::uint32_t most_alternatives = 20;
/// What steps without the host between them may take together: tokens come in bursts then, which nobody shall see, and an answer that ends
/// within has had steps for nothing.
constexpr double longest_burst = 0.02;

/// One request on its way.
struct Stream {
  const Request* request;
  Answer* answer;
  std::unique_ptr<AnswerText> text;
  std::vector<std::int32_t> pending;  // tokens not yet read: the rest of the prompt, then the last drawn one
  std::size_t read = 0;               // of pending
  bool drawing = false;               // the prompt is in the cache
  bool again = false;                 // pending is the last token that the sequence holds
  LoopGuard loop{};
};

void check_sampling(const Sampling& s, std::size_t index, std::int32_t vocabulary) {
  const auto refuse = [&](const char* member, double found, const char* wanted) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("request ", index, ": ", member, " is ", found, "; it takes ", wanted));
  };
  if (!(s.temperature >= 0) || std::isinf(s.temperature)) refuse("temperature", s.temperature, "0 (greedy) or more");
  if (!(s.top_p >= 0 && s.top_p <= 1)) refuse("top_p", s.top_p, "0 to 1");
  if (!(s.min_p >= 0 && s.min_p <= 1)) refuse("min_p", s.min_p, "0 to 1");
  if (!(s.repeat_penalty >= 0) || std::isinf(s.repeat_penalty)) refuse("repeat_penalty", s.repeat_penalty, "0 or more");
  if (!std::isfinite(s.presence_penalty)) refuse("presence_penalty", s.presence_penalty, "a finite number");
  if (!std::isfinite(s.frequency_penalty)) refuse("frequency_penalty", s.frequency_penalty, "a finite number");
  for (std::size_t i = 0; i < s.bias_tokens.size(); ++i) {
    if (s.bias_tokens[i] < 0 || s.bias_tokens[i] >= vocabulary) refuse("a bias token", s.bias_tokens[i], "an id of the vocabulary");
    if (std::isnan(s.bias_values[i])) refuse("a bias", s.bias_values[i], "a number");
  }
}

void check(const Engine& engine, const std::vector<Request>& requests) {
  const auto vocabulary = static_cast<std::int32_t>(engine.model().shape().vocabulary);
  std::vector<bool> used(engine.sequences(), false);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& r = requests[i];
    if (r.sequence >= engine.sequences()) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("request ", i, ": sequence is ", r.sequence, " but the session has ", engine.sequences(),
                                                 " (0 to ", engine.sequences() - 1, ")"));
    }
    if (used[r.sequence]) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("request ", i, ": sequence ", r.sequence, " is used by another request of this call"));
    }
    used[r.sequence] = true;
    const std::uint64_t held = r.append ? engine.tokens(r.sequence).size() : 0;
    if (r.prompt.empty() && held == 0) { throw Error(QUERN_INVALID_ARGUMENT, concat("request ", i, ": the prompt is empty")); }
    for (const std::int32_t token : r.prompt) {
      if (token < 0 || token >= vocabulary) {
        throw Error(QUERN_INVALID_ARGUMENT, concat("request ", i, ": token ", token, " is outside the vocabulary of ", vocabulary));
      }
    }
    if (held + r.prompt.size() > engine.context()) {
      throw Error(QUERN_CONTEXT_FULL, concat("request ", i, ": the prompt has ", counted(r.prompt.size(), "token"),
                                             held > 0 ? concat(" after ", held, " held by the sequence") : "", ", but the context is ",
                                             engine.context(), "; shorten it or load with a larger context"));
    }
    if (r.logprobs > most_alternatives) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("request ", i, ": logprobs is ", r.logprobs, "; at most ", most_alternatives));
    }
    check_sampling(r.sampling, i, vocabulary);
  }
}

SamplerInput sampler_of(const Sampling& s, std::size_t step) {
  SamplerInput input;
  const bool penalised = (s.repeat_penalty != 0 && s.repeat_penalty != 1) || s.presence_penalty != 0 || s.frequency_penalty != 0;
  const std::uint32_t window = s.penalty_window == 0 ? default_penalty_window : s.penalty_window;
  input.params = {s.temperature,
                  static_cast<float>(s.top_k),
                  s.top_p == 0 ? 1.0f : s.top_p,
                  s.min_p,
                  s.repeat_penalty == 0 ? 1.0f : s.repeat_penalty,
                  s.presence_penalty,
                  s.frequency_penalty,
                  penalised ? static_cast<float>(window) : 0.0f};
  input.seed = {static_cast<std::uint32_t>(s.seed), static_cast<std::uint32_t>(s.seed >> 32)};
  input.step = static_cast<std::int32_t>(step);
  input.bias_tokens = s.bias_tokens;
  input.bias_values = s.bias_values;
  return input;
}

/// Puts the prompt behind what the sequence keeps: the common start, less one token so that there is a row to draw from.
void start(Engine& engine, Stream& stream) {
  const Request& r = *stream.request;
  const std::span<const std::int32_t> held = engine.tokens(r.sequence);
  stream.answer->prompt_tokens = r.prompt.size();
  if (r.append) {
    stream.pending = r.prompt;
    if (stream.pending.empty()) {  // draw from the last token that the sequence holds
      stream.pending.push_back(held.back());
      stream.again = true;
    }
    return;
  }
  std::size_t common = 0;
  while (common < held.size() && common + 1 < r.prompt.size() && held[common] == r.prompt[common]) ++common;
  engine.truncate(r.sequence, static_cast<std::uint32_t>(common));
  stream.answer->reused_tokens = common;
  stream.pending.assign(r.prompt.begin() + static_cast<std::ptrdiff_t>(common), r.prompt.end());
}

/// Takes the token of the last step; true if the answer goes on.
bool take(Engine& engine, Stream& stream, std::uint32_t output) {
  const Request& r = *stream.request;
  Answer& answer = *stream.answer;
  TokenEvent event;
  event.token = engine.sampled(output);
  event.logprob = std::nanf("");
  answer.ids.push_back(event.token);
  if (r.logprobs > 0) {
    event.logprob = engine.logprob(output);
    answer.logprobs.push_back(event.logprob);
    std::vector<float> logits(engine.model().shape().vocabulary);
    engine.logits(output, logits);
    event.top = best_alternatives(logits, r.logprobs);
    answer.top.push_back(event.top);
  }
  const bool known = event.token < engine.model().vocabulary().tokenizer().size();
  const bool end = !r.ignore_end && known && engine.model().vocabulary().tokenizer().is_end(event.token);
  if (!end && known) event.piece = stream.text->push(event.token);

  if (end) {
    answer.finish = Finish::end;
  } else if (stream.text->stopped()) {
    answer.finish = Finish::stop;
  } else if (r.max_tokens != 0 && answer.ids.size() >= r.max_tokens) {
    answer.finish = Finish::length;
  } else if (engine.tokens(r.sequence).size() >= engine.context()) {
    answer.finish = Finish::context;
  }
  if (r.loop_guard && stream.loop.push(event.token) && answer.finish == Finish::none) answer.finish = Finish::loop;
  answer.text += event.piece;
  if (r.on_token && !r.on_token(event) && answer.finish == Finish::none) answer.finish = Finish::cancelled;
  stream.pending.assign(1, event.token);
  stream.read = 0;
  stream.again = false;
  return answer.finish == Finish::none;
}

void end(Stream& stream) {
  const std::string rest = stream.text->finish();
  if (rest.empty()) return;
  stream.answer->text += rest;
  TokenEvent event;
  event.piece = rest;
  event.logprob = std::nanf("");
  if (stream.request->on_token) stream.request->on_token(event);
}

/// How many steps may follow one of a single sequence before the host has seen its token, where a step takes so many seconds; of no sequence
/// whose next step depends on more than the token. Answers do not depend on it.
std::uint32_t followers_of(const Engine& engine, const Stream& stream, const SamplerInput& sampler, double step_seconds) {
  const Request& r = *stream.request;
  if (!stream.drawing || r.logprobs > 0 || sampler.params[7] > 0 || step_seconds <= 0) return 0;
  std::uint64_t most = engine.followers();
  most = std::min<std::uint64_t>(most, static_cast<std::uint64_t>(std::max(1.0, longest_burst / step_seconds)) - 1);
  const std::uint64_t held = engine.tokens(r.sequence).size() + 1, drawn = stream.answer->ids.size() + 1;  // behind this step
  most = std::min<std::uint64_t>(most, engine.context() - std::min<std::uint64_t>(held, engine.context()));
  if (r.max_tokens != 0) most = std::min<std::uint64_t>(most, r.max_tokens - std::min<std::uint64_t>(drawn, r.max_tokens));
  return static_cast<std::uint32_t>(most);
}

}  // namespace

std::vector<Alternative> best_alternatives(std::span<const float> logits, std::uint32_t n) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<std::size_t>(n, order.size());
  const auto of = [&](std::int32_t id) {  // NaN ranks as -inf, as for the ops: it would have no place in an order
    const float logit = logits[static_cast<std::size_t>(id)];
    return std::isnan(logit) ? -INFINITY : logit;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), [&](std::int32_t a, std::int32_t b) {
    const float x = of(a), y = of(b);
    return x != y ? x > y : a < b;
  });
  const float best = count == 0 ? 0 : logits[static_cast<std::size_t>(order[0])];
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - best);
  const double lse = best + std::log(sum);
  std::vector<Alternative> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back({order[i], static_cast<float>(logits[static_cast<std::size_t>(order[i])] - lse)});
  }
  return result;
}

std::vector<Answer> generate(Engine& engine, std::vector<Request> requests, GenerationTotals& totals) {
  check(engine, requests);
  engine.clear_cancel();
  std::vector<Answer> answers(requests.size());
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Stream stream{&requests[i], &answers[i], std::make_unique<AnswerText>(engine.model().vocabulary(), requests[i].stops), {}, 0, false};
    start(engine, stream);
    streams.push_back(std::move(stream));
  }

  const Clock::time_point began = Clock::now();
  Clock::time_point prompts_done = began;
  std::vector<Row> rows;
  std::vector<SamplerInput> samplers;
  std::vector<Stream*> drawers;
  double step_seconds = 0;  // of the fastest step of one row yet
  const struct Drop {       // what followed the end of an answer
    Engine& engine;
    ~Drop() { engine.drop_followers(); }
  } drop{engine};
  while (!streams.empty()) {
    if (engine.cancel_requested()) {
      for (Stream& stream : streams) {
        stream.answer->finish = Finish::cancelled;
        end(stream);
      }
      break;
    }
    rows.clear();
    samplers.clear();
    drawers.clear();
    for (Stream& stream : streams) {
      const std::size_t room = std::min(engine.max_rows() - rows.size(), stream.pending.size() - stream.read);
      if (room == 0) continue;
      const bool last = stream.read + room == stream.pending.size() && samplers.size() < engine.max_outputs();
      for (std::size_t i = 0; i < room; ++i) {
        rows.push_back({stream.request->sequence, stream.pending[stream.read + i], last && i + 1 == room, stream.again});
      }
      stream.read += room;
      if (last) {
        samplers.push_back(sampler_of(stream.request->sampling, stream.answer->ids.size()));
        drawers.push_back(&stream);
      }
    }
    const Clock::time_point before = Clock::now();
    const bool alone = rows.size() == 1 && samplers.size() == 1 && streams.size() == 1;
    const std::uint32_t followers = alone ? followers_of(engine, *drawers[0], samplers[0], step_seconds) : 0;
    try {
      if (!alone || !engine.follow(samplers[0], followers)) {
        engine.step(rows, samplers, followers);
        const std::uint32_t done = engine.program().followers_go_on() ? 1 : followers + 1;  // when step() returned
        if (const double now = seconds_since(before) / done; alone && (step_seconds == 0 || now < step_seconds)) step_seconds = now;
      }
    } catch (const Error& error) {
      if (error.code() != QUERN_CANCELLED || !engine.cancel_requested()) throw;
      continue;  // to the answers' end, above
    }
    const double spent = seconds_since(before);
    const bool prefill = rows.size() > drawers.size() || std::ranges::any_of(drawers, [](const Stream* s) { return !s->drawing; });
    (prefill ? totals.tokens_prefill : totals.tokens_decode) += rows.size();
    (prefill ? totals.seconds_prefill : totals.seconds_decode) += spent;

    for (std::uint32_t output = 0; output < drawers.size(); ++output) {
      Stream& stream = *drawers[output];
      if (!stream.drawing) {
        stream.drawing = true;
        prompts_done = Clock::now();
      }
      if (!take(engine, stream, output)) end(stream);
    }
    std::erase_if(streams, [](const Stream& s) { return s.answer->finish != Finish::none; });
  }
  const double prompt_seconds = std::chrono::duration<double>(prompts_done - began).count();
  for (Answer& answer : answers) {
    answer.prompt_seconds = prompt_seconds;
    answer.decode_seconds = seconds_since(prompts_done);
  }
  return answers;
}

}  // namespace quern::runtime
