// quern_generate and its answers.
#include "boundary.hpp"
#include "handles.hpp"

using namespace quern;
using namespace quern::c_api;

namespace {

runtime::Sampling sampling_of(const quern_sampling* given, std::uint64_t index) {
  const auto s = whole(given, "quern_sampling");
  if (s.bias_count > 0 && s.bias == nullptr) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("request ", index, ": bias_count is ", s.bias_count, " but bias is null"));
  }
  runtime::Sampling sampling;
  sampling.temperature = s.temperature;
  sampling.top_p = s.top_p;
  sampling.min_p = s.min_p;
  sampling.repeat_penalty = s.repeat_penalty;
  sampling.presence_penalty = s.presence_penalty;
  sampling.frequency_penalty = s.frequency_penalty;
  sampling.penalty_window = s.penalty_window;
  sampling.top_k = s.top_k;
  sampling.seed = s.seed;
  for (std::uint64_t i = 0; i < s.bias_count; ++i) {
    sampling.bias_tokens.push_back(s.bias[i].token);
    sampling.bias_values.push_back(s.bias[i].bias);
  }
  return sampling;
}

/// Wraps the C callback; the event and its arrays live during the call.
std::function<bool(const runtime::TokenEvent&)> callback_of(const quern_request& request, std::uint32_t index) {
  if (request.on_token == nullptr) return {};
  return [on_token = request.on_token, user = request.user, index](const runtime::TokenEvent& event) {
    std::vector<std::int32_t> ids;
    std::vector<float> logprobs;
    for (const runtime::Alternative& a : event.top) {
      ids.push_back(a.token);
      logprobs.push_back(a.logprob);
    }
    quern_token_event c{};
    c.struct_size = sizeof(c);
    c.request = index;
    c.token = event.token;
    c.piece = event.piece.c_str();
    c.piece_size = event.piece.size();
    c.logprob = event.logprob;
    c.top_count = static_cast<std::uint32_t>(ids.size());
    c.top = ids.data();
    c.top_logprobs = logprobs.data();
    return call_back(on_token, user, &c) == 0;
  };
}

runtime::Request request_of(const quern_request& r, std::uint32_t index) {
  check_flags(r.flags, QUERN_REQUEST_APPEND | QUERN_REQUEST_LOOP_GUARD, "quern_request.flags");
  if (r.prompt_count > 0) require(r.prompt, "a request's prompt");
  if (r.stop_count > 0) require(r.stop, "a request's stop");
  runtime::Request request;
  if (r.prompt_count > 0) request.prompt.assign(r.prompt, r.prompt + r.prompt_count);
  request.sequence = r.sequence;
  request.append = (r.flags & QUERN_REQUEST_APPEND) != 0;
  request.sampling = sampling_of(r.sampling, index);
  request.max_tokens = r.max_tokens;
  for (std::uint64_t i = 0; i < r.stop_count; ++i) {
    require(r.stop[i], "a stop string");
    request.stops.emplace_back(r.stop[i]);
  }
  request.logprobs = r.logprobs;
  request.ignore_end = r.ignore_end != 0;
  request.loop_guard = (r.flags & QUERN_REQUEST_LOOP_GUARD) != 0;
  request.on_token = callback_of(r, index);
  return request;
}

const runtime::Answer& answer_at(const quern_generation* generation, std::uint64_t request) {
  require(generation, "generation");
  if (request >= generation->answers.size()) {
    throw Error(QUERN_NOT_FOUND, concat("answer ", request, " was asked for, but there are ", generation->answers.size()));
  }
  return generation->answers[request];
}

}  // namespace

extern "C" {

quern_status quern_generate(quern_session* session, const quern_request* requests, uint64_t count, quern_generation** out) {
  return guarded([&] {
    if (out != nullptr) *out = nullptr;
    require(session, "session");
    require(requests, "requests");
    if (count == 0) throw Error(QUERN_INVALID_ARGUMENT, "there are no requests");
    const Owner::Use use(session);  // a callback may release it
    const Turn turn(session);
    std::vector<runtime::Request> list;
    for (std::uint64_t i = 0; i < count; ++i) {
      list.push_back(request_of(whole_at(requests, i, "quern_request"), static_cast<std::uint32_t>(i)));
    }
    auto handle = std::make_unique<quern_generation>();
    handle->answers = runtime::generate(*session->engine, std::move(list), session->totals);
    for (const runtime::Answer& answer : handle->answers) {
      auto& ids = handle->top_ids.emplace_back();
      auto& logprobs = handle->top_logprobs.emplace_back();
      for (const auto& alternatives : answer.top) {
        auto& row_ids = ids.emplace_back();
        auto& row_logprobs = logprobs.emplace_back();
        for (const runtime::Alternative& a : alternatives) {
          row_ids.push_back(a.token);
          row_logprobs.push_back(a.logprob);
        }
      }
    }
    if (out != nullptr) *out = handle.release();
  });
}

quern_status quern_generation_answer(const quern_generation* generation, uint64_t request, quern_answer_info* out) {
  return guarded<Needs::little>([&] {
    const runtime::Answer& answer = answer_at(generation, request);
    quern_answer_info info{};
    info.ids = answer.ids.data();
    info.id_count = answer.ids.size();
    info.text = answer.text.c_str();
    info.text_size = answer.text.size();
    info.finish = static_cast<std::uint32_t>(answer.finish);
    info.prompt_tokens = answer.prompt_tokens;
    info.reused_tokens = answer.reused_tokens;
    info.prompt_seconds = answer.prompt_seconds;
    info.decode_seconds = answer.decode_seconds;
    info.logprobs = answer.logprobs.empty() ? nullptr : answer.logprobs.data();
    give(out, info, "quern_answer_info");
  });
}

quern_status quern_generation_top(const quern_generation* generation, uint64_t request, uint64_t token_index, const int32_t** ids,
                                  const float** logprobs, uint64_t* count) {
  return guarded<Needs::little>([&] {
    const runtime::Answer& answer = answer_at(generation, request);
    require(ids, "ids");
    require(logprobs, "logprobs");
    require(count, "count");
    if (token_index >= answer.top.size()) {
      throw Error(QUERN_NOT_FOUND, concat("alternatives of token ", token_index, " were asked for, but there are ", answer.top.size(),
                                          answer.top.empty() ? " (the request asked for none)" : ""));
    }
    *ids = generation->top_ids[request][token_index].data();
    *logprobs = generation->top_logprobs[request][token_index].data();
    *count = answer.top[token_index].size();
  });
}

void quern_generation_release(quern_generation* generation) { delete generation; }

const char* quern_finish_name(uint32_t finish) {
  switch (finish) {
    case QUERN_FINISH_END: return "end";
    case QUERN_FINISH_STOP: return "stop";
    case QUERN_FINISH_LENGTH: return "length";
    case QUERN_FINISH_CONTEXT: return "context";
    case QUERN_FINISH_CANCELLED: return "cancelled";
    case QUERN_FINISH_LOOP: return "loop";
    default: return "unknown";
  }
}

}  // extern "C"
