// Runtime, tensors, model, sessions: generate, save, restore, embed, statistics.
#include "life.hpp"

#include <algorithm>

namespace quern::test::allocations {
namespace {

class LifeOfSessions final : public Life {
 public:
  using Life::Life;

 private:
  void live_all() override {
    quern_runtime* const runtime = ready_runtime();
    if (runtime != nullptr) with_runtime(runtime);
    quern_runtime_release(runtime);
  }

  void with_runtime(quern_runtime* runtime) {
    quern_load_report* report = nullptr;
    if (step("quern_runtime_load_report", [&] { return quern_runtime_load_report(runtime, &report); })) {
      quern_text* text = nullptr;
      step("quern_load_report_json", [&] { return quern_load_report_json(report, &text); });
      quern_text_release(text);
    }
    quern_load_report_release(report);
    tensors(runtime);
    quern_model* model = nullptr;
    quern_model_options options{};
    options.struct_size = sizeof options;
    options.context = 64;
    options.sequences = 2;
    options.embeddings = 1;
    if (step("quern_model_load", [&] { return quern_model_load(runtime, subject_.model.c_str(), &options, &model); })) with_model(model);
    quern_model_release(model);
  }

  void tensors(quern_runtime* runtime) {
    quern_tensor *x = nullptr, *y = nullptr;
    const std::int64_t shape[2] = {2, 2};
    const float numbers[4] = {1, 2, 3, 4};
    if (step("quern_tensor_create", [&] { return quern_tensor_create(runtime, nullptr, QUERN_F32, shape, 2, &x); }) &&
        step("quern_tensor_write", [&] { return quern_tensor_write(x, 0, numbers, sizeof numbers); })) {
      const quern_tensor* inputs[2] = {x, x};
      quern_op_call call{};
      call.struct_size = sizeof call;
      call.op = "matmul";
      call.inputs = inputs;
      call.input_count = 2;
      call.outputs = &y;
      call.output_count = 1;
      counting = false;  // the test's own
      results.product.resize(4);
      counting = true;
      if (step("quern_run_op", [&] { return quern_run_op(&call, nullptr); }))
        step("quern_tensor_read", [&] { return quern_tensor_read(y, 0, results.product.data(), 16); });
    }
    quern_tensor_release(x);
    quern_tensor_release(y);
  }

  void with_model(quern_model* model) {
    quern_session *session = nullptr, *second = nullptr;
    quern_session_options options{};
    options.struct_size = sizeof options;
    options.sequences = 2;
    const quern_vocabulary* words = quern_model_vocabulary(model);
    quern_text* chat = nullptr;
    const quern_message message = {sizeof message, "user", "hi", 0};
    std::int32_t ids[256];
    std::uint64_t count = 0;
    if (step("quern_render_chat", [&] { return quern_render_chat(words, &message, 1, 0, &chat); }) &&
        step("quern_tokenize_chat",
             [&] { return quern_tokenize_chat(words, quern_text_data(chat), quern_text_size(chat), 0, ids, 256, &count); }) &&
        step("quern_tokenize_rendered", [&] { return quern_tokenize_rendered(words, chat, 0, ids, 256, &count); }) &&
        step("quern_session_create", [&] { return quern_session_create(model, &options, &session); }) &&
        step("quern_session_create", [&] { return quern_session_create(model, nullptr, &second); })) {
      with_sessions(session, second, ids, std::min<std::uint64_t>(count, 32));
    }
    quern_text_release(chat);
    quern_session_release(session);
    quern_session_release(second);
  }

  void with_sessions(quern_session* session, quern_session* second, const std::int32_t* ids, std::uint64_t count) {
    const quern_logit_bias bias = {5, -1};
    quern_sampling sampling{};
    sampling.struct_size = sizeof sampling;
    sampling.temperature = 0.8f;
    sampling.top_p = 0.9f;
    sampling.repeat_penalty = 1.1f;
    sampling.seed = 7;
    sampling.bias = &bias;
    sampling.bias_count = 1;
    const char* stop = "no such text";
    quern_request requests[2] = {};
    for (std::uint32_t s = 0; s < 2; ++s) {
      requests[s].struct_size = sizeof requests[s];
      requests[s].prompt = ids;
      requests[s].prompt_count = count;
      requests[s].sequence = s;
      requests[s].sampling = s == 0 ? nullptr : &sampling;
      requests[s].max_tokens = 6;
      requests[s].stop = &stop;
      requests[s].stop_count = 1;
      requests[s].logprobs = 3;
      requests[s].ignore_end = 1;
    }
    quern_generation* generation = nullptr;
    if (step("quern_generate", [&] { return quern_generate(session, requests, 2, &generation); })) {
      for (std::uint32_t s = 0; s < 2; ++s) {
        quern_answer_info info{};
        info.struct_size = sizeof info;
        step("quern_generation_answer", [&] { return quern_generation_answer(generation, s, &info); });
        counting = false;  // what follows is the test's own
        results.ids.insert(results.ids.end(), info.ids, info.ids + info.id_count);
        counting = true;
      }
    }
    quern_generation_release(generation);
    std::uint64_t needed = 0;
    if (step("quern_session_save", [&] { return quern_session_save(session, nullptr, 0, &needed); })) {
      counting = false;
      std::vector<char> state(needed);
      counting = true;
      if (step("quern_session_save", [&] { return quern_session_save(session, state.data(), state.size(), &needed); }))
        step("quern_session_restore", [&] { return quern_session_restore(session, state.data(), state.size()); });
    }
    counting = false;
    results.embedding.resize(4096);
    counting = true;
    step("quern_embed", [&] {
      return quern_embed(second, 0, ids, count, QUERN_POOL_MEAN, 0, results.embedding.data(), results.embedding.size(), nullptr);
    });
    quern_statistics* statistics = nullptr;
    if (step("quern_session_statistics", [&] { return quern_session_statistics(session, &statistics); })) {
      quern_text* text = nullptr;
      step("quern_statistics_json", [&] { return quern_statistics_json(statistics, &text); });
      quern_text_release(text);
    }
    quern_statistics_release(statistics);
  }
};

}  // namespace

std::unique_ptr<Life> life_of_sessions(const Subject& subject) { return std::make_unique<LifeOfSessions>(subject); }

}  // namespace quern::test::allocations
