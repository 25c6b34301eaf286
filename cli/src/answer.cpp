#include "answer.hpp"

#include "api.hpp"
#include "numbers.hpp"

#include <exception>
#include <random>

namespace quern::cli {
namespace {

struct Stream {
  const InterruptGuard& guard;
  const TokenSink& sink;
  ActivityWriter& activity;
  std::exception_ptr trouble;  // an exception may not cross the library
};

int on_token(void* user, const quern_token_event* event) {
  Stream& stream = *static_cast<Stream*>(user);
  stream.activity.add_token();
  if (stream.guard.interrupted()) return 1;
  if (!stream.sink) return 0;
  try {
    stream.sink(*event);
    return 0;
  } catch (...) {
    stream.trouble = std::current_exception();
    return 1;
  }
}

quern_sampling sampling_of(const SamplingFlags& flags, std::uint64_t seed) {
  quern_sampling sampling{};
  sampling.struct_size = sizeof sampling;
  sampling.temperature = flags.temperature;
  sampling.top_p = flags.top_p;
  sampling.min_p = flags.min_p;
  sampling.repeat_penalty = flags.repeat_penalty;
  sampling.presence_penalty = flags.presence_penalty;
  sampling.frequency_penalty = flags.frequency_penalty;
  sampling.penalty_window = flags.penalty_window;
  sampling.top_k = flags.top_k;
  sampling.seed = seed;
  sampling.bias = flags.bias.data();
  sampling.bias_count = flags.bias.size();
  return sampling;
}

std::vector<std::vector<Alternative>> alternatives(const quern_generation* generation, std::size_t tokens) {
  std::vector<std::vector<Alternative>> all(tokens);
  for (std::size_t at = 0; at < tokens; ++at) {
    const std::int32_t* ids = nullptr;
    const float* logprobs = nullptr;
    std::uint64_t count = 0;
    check(quern_generation_top(generation, 0, at, &ids, &logprobs, &count));
    for (std::uint64_t one = 0; one < count; ++one) all[at].push_back({ids[one], logprobs[one]});
  }
  return all;
}

}  // namespace

std::uint64_t seed_of(const SamplingFlags& flags) {
  if (flags.seed) return *flags.seed;
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

void check_context(const quern_model* model, std::uint64_t tokens, const std::string& what) {
  const auto info = get<quern_model_info>(quern_model_get_info, model);
  if (tokens < info.context) return;
  throw Failure(exit_context, what + " has " + with_commas(tokens) + " tokens, and the context holds " + with_commas(info.context) +
                                  "; shorten it, or give a larger --context");
}

Answer answer(quern_session* session, const std::vector<std::int32_t>& prompt, const RunFlags& flags, std::uint64_t seed,
              const TokenSink& sink, const InterruptGuard& guard, ActivityWriter& activity) {
  Stream state{guard, sink, activity, nullptr};
  const quern_sampling sampling = sampling_of(flags.sampling, seed);
  std::vector<const char*> stops;
  for (const std::string& stop : flags.stop) stops.push_back(stop.c_str());
  quern_request request{};
  request.struct_size = sizeof request;
  request.prompt = prompt.data();
  request.prompt_count = prompt.size();
  request.sampling = &sampling;
  request.flags = flags.no_loop_guard ? 0 : QUERN_REQUEST_LOOP_GUARD;
  request.max_tokens = flags.max_tokens;
  request.stop = stops.data();
  request.stop_count = stops.size();
  request.logprobs = flags.logprobs;
  request.on_token = on_token;
  request.user = &state;

  const quern_request* requests = &request;
  const auto generation = make<Generation>(quern_generate, session, requests, std::uint64_t{1});
  if (state.trouble) std::rethrow_exception(state.trouble);
  const quern_generation* handle = generation.get();
  const auto info = get<quern_answer_info>(quern_generation_answer, handle, std::uint64_t{0});
  Answer out;
  out.ids.assign(info.ids, info.ids + info.id_count);
  out.text.assign(info.text, static_cast<std::size_t>(info.text_size));
  out.finish = info.finish;
  out.reused_tokens = info.reused_tokens;
  out.prompt_seconds = info.prompt_seconds;
  out.decode_seconds = info.decode_seconds;
  if (info.logprobs != nullptr) {
    out.logprobs.assign(info.logprobs, info.logprobs + info.id_count);
    out.best = alternatives(handle, out.ids.size());
  }
  return out;
}

void explain_loop(const Answer& made) {
  if (made.finish != QUERN_FINISH_LOOP) return;
  write_error_line("the answer repeated itself and was ended; --no-loop-guard lets it go on, --repeat-penalty 1.1 makes it rarer");
}

}  // namespace quern::cli
