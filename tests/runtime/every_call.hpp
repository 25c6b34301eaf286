// Every function of quern.h as a row of a table, for tests that make all calls from an unusual place: a forked child, a callback, a small stack.
#pragma once

#include "api_support.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

namespace quern::test {

/// One of each kind of handle, with what it was made of.
struct World {
  quern_runtime* runtime = nullptr;
  quern_model* model = nullptr;
  quern_session* session = nullptr;
  quern_tensor *tensor = nullptr, *second_tensor = nullptr;
  quern_vocabulary* vocabulary = nullptr;
  quern_load_report* report = nullptr;
  quern_device_list* devices = nullptr;
  quern_generation* generation = nullptr;
  quern_evaluation* evaluation = nullptr;
  quern_statistics* statistics = nullptr;
  quern_estimate* estimate = nullptr;
  quern_training* training = nullptr;
  quern_trainer* trainer = nullptr;
  quern_adapter* adapter = nullptr;
  quern_text* text = nullptr;
  std::string model_file, folder;
  std::vector<char> state;  // of the session, as it was saved
};

enum class Works {
  alone,      // on what its arguments point to: memory
  on_memory,  // on a handle that is memory alone: works anywhere
  on_owner    // on a runtime, model, session or tensor
};

struct ApiCall {
  const char* name;
  Works works;
  /// The status, or QUERN_OK of a function without one. Handles that it makes are released.
  std::function<quern_status(World&)> call;
};

inline const std::vector<std::int32_t>& some_ids() {
  static const std::vector<std::int32_t> ids{1, 40, 41, 42, 43};
  return ids;
}

inline quern_model_options small_model() {
  quern_model_options options{};
  options.struct_size = sizeof options;
  options.context = 64;
  options.sequences = 2;
  options.embeddings = 1;
  return options;
}

/// A call that makes a handle: released at once.
template <typename T, typename Call, typename Free>
quern_status made(Call call, Free release) {
  T* handle = nullptr;
  const quern_status status = call(&handle);
  EXPECT_TRUE(status == QUERN_OK || handle == nullptr);
  release(handle);
  return status;
}
template <typename Call>
quern_status text_made(Call call) {
  return made<quern_text>(call, quern_text_release);
}
template <typename Struct, typename Call>
quern_status filled(Call call) {
  Struct out{};
  out.struct_size = sizeof out;
  return call(&out);
}

inline quern_hub_options offline_hub(const World& w) {
  quern_hub_options options{};
  options.struct_size = sizeof options;
  options.ignore_environment = 1;
  options.offline = QUERN_OFFLINE_ON;
  options.hub_cache = options.cache_dir = w.folder.c_str();
  return options;
}

/// Settings of a run of the small model on the world's data.
inline std::string training_settings(const World& w) {
  return R"({"base_model": ")" + w.model_file + R"(", "adapter": "lora", "lora_r": 2, "learning_rate": 0.001, "max_steps": 1000,
    "datasets": [{"path": ")" +
         w.folder + R"(/data.jsonl"}], "val_set_size": 1, "output_dir": ")" + w.folder + R"(/run"})";
}

inline const std::vector<ApiCall>& every_call() {
  using enum Works;
  static const quern_runtime_options plain = [] {
    quern_runtime_options options{};
    options.struct_size = sizeof options;
    options.ignore_environment = 1;
    options.backend = "cpu";
    options.threads = 2;
    return options;
  }();
  static const std::vector<ApiCall> calls{
      {"quern_version", alone, [](World&) { return quern_version() != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_usable_processors", alone,
       [](World&) {
         std::uint32_t count = 0;
         return quern_usable_processors(&count);
       }},
      {"quern_build", alone, [](World&) { return quern_build() != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_plugin_abi_epoch", alone, [](World&) { return quern_plugin_abi_epoch() > 0 ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_plugin_abi_minor", alone, [](World&) { return quern_plugin_abi_minor(), QUERN_OK; }},
      {"quern_last_error", alone, [](World&) { return quern_last_error() != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_status_name", alone, [](World&) { return quern_status_name(QUERN_BUSY) != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_open_calls", alone,
       [](World&) {
         quern_open_call call{};
         call.struct_size = sizeof call;
         return quern_open_calls(1000, &call) == 0 ? QUERN_OK : QUERN_INTERNAL;
       }},
      {"quern_keep_fault", alone, [](World&) { return quern_keep_fault(nullptr, QUERN_FAULT_HUNG, 0) == 0 ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_watch_output", alone, [](World&) { return quern_watch_output(-1, nullptr, nullptr), QUERN_OK; }},
      {"quern_finish_name", alone, [](World&) { return quern_finish_name(1) != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_dtype_name", alone, [](World&) { return *quern_dtype_name(QUERN_F32) == 'f' ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_dtype_from_name", alone, [](World&) { return quern_dtype_from_name("f32") == QUERN_F32 ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_text_data", on_memory, [](World& w) { return quern_text_data(w.text) != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_text_size", on_memory, [](World& w) { return quern_text_size(w.text), QUERN_OK; }},
      {"quern_text_release", on_memory, [](World&) { return quern_text_release(nullptr), QUERN_OK; }},
      {"quern_runtime_create", alone,
       [](World&) {
         return made<quern_runtime>([](quern_runtime** out) { return quern_runtime_create(&plain, out); }, quern_runtime_release);
       }},
      {"quern_runtime_release", alone, [](World&) { return quern_runtime_release(nullptr), QUERN_OK; }},
      {"quern_runtime_ready", on_owner, [](World& w) { return quern_runtime_ready(w.runtime); }},
      {"quern_runtime_load_report", on_owner,
       [](World& w) {
         return made<quern_load_report>([&](auto** out) { return quern_runtime_load_report(w.runtime, out); }, quern_load_report_release);
       }},
      {"quern_load_report_count", on_memory, [](World& w) { return quern_load_report_count(w.report) > 0 ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_load_report_entry", on_memory,
       [](World& w) { return filled<quern_load_entry>([&](auto* out) { return quern_load_report_entry(w.report, 0, out); }); }},
      {"quern_load_report_words", on_memory,
       [](World& w) { return text_made([&](auto** out) { return quern_load_report_words(w.report, out); }); }},
      {"quern_load_report_json", on_memory,
       [](World& w) { return text_made([&](auto** out) { return quern_load_report_json(w.report, out); }); }},
      {"quern_load_report_release", on_memory, [](World&) { return quern_load_report_release(nullptr), QUERN_OK; }},
      {"quern_runtime_devices", on_owner,
       [](World& w) {
         return made<quern_device_list>([&](auto** out) { return quern_runtime_devices(w.runtime, out); }, quern_device_list_release);
       }},
      {"quern_device_list_count", on_memory, [](World& w) { return quern_device_list_count(w.devices) > 0 ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_device_list_entry", on_memory,
       [](World& w) { return filled<quern_device_entry>([&](auto* out) { return quern_device_list_entry(w.devices, 0, out); }); }},
      {"quern_device_list_json", on_memory,
       [](World& w) { return text_made([&](auto** out) { return quern_device_list_json(w.devices, out); }); }},
      {"quern_device_list_release", on_memory, [](World&) { return quern_device_list_release(nullptr), QUERN_OK; }},
      {"quern_vocabulary_open", alone,
       [](World& w) {
         return made<quern_vocabulary>([&](auto** out) { return quern_vocabulary_open(w.model_file.c_str(), out); },
                                       quern_vocabulary_release);
       }},
      {"quern_vocabulary_open_with", alone,
       [](World& w) {
         quern_vocabulary_options options{};
         options.struct_size = sizeof options;
         return made<quern_vocabulary>([&](auto** out) { return quern_vocabulary_open_with(w.model_file.c_str(), &options, out); },
                                       quern_vocabulary_release);
       }},
      {"quern_vocabulary_warning", on_memory, [](World& w) { return quern_vocabulary_warning(w.vocabulary), QUERN_OK; }},
      {"quern_chat_from_json", alone,
       [](World&) {
         const std::string json = R"([{"role": "user", "content": "some words"}])";
         return made<quern_chat>([&](auto** out) { return quern_chat_from_json(json.data(), json.size(), out); }, quern_chat_release);
       }},
      {"quern_chat_release", on_memory, [](World&) { return quern_chat_release(nullptr), QUERN_OK; }},
      {"quern_chat_render", on_memory,
       [](World& w) {
         const std::string json = R"([{"role": "user", "name": "ann", "content": [{"type": "text", "text": "some words"}]}])";
         quern_chat* chat = nullptr;
         quern_status status = quern_chat_from_json(json.data(), json.size(), &chat);
         if (status == QUERN_OK) status = text_made([&](auto** out) { return quern_chat_render(w.vocabulary, chat, 0, out); });
         quern_chat_release(chat);
         return status;
       }},
      {"quern_vocabulary_release", on_memory, [](World&) { return quern_vocabulary_release(nullptr), QUERN_OK; }},
      {"quern_vocabulary_size", on_memory, [](World& w) { return quern_vocabulary_size(w.vocabulary) > 0 ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_vocabulary_bos", on_memory, [](World& w) { return quern_vocabulary_bos(w.vocabulary), QUERN_OK; }},
      {"quern_vocabulary_eos", on_memory, [](World& w) { return quern_vocabulary_eos(w.vocabulary), QUERN_OK; }},
      {"quern_vocabulary_is_end", on_memory, [](World& w) { return quern_vocabulary_is_end(w.vocabulary, 2), QUERN_OK; }},
      {"quern_vocabulary_chat_template", on_memory, [](World& w) { return quern_vocabulary_chat_template(w.vocabulary), QUERN_OK; }},
      {"quern_tokenize", on_memory,
       [](World& w) {
         std::int32_t ids[64];
         std::uint64_t count = 0;
         return quern_tokenize(w.vocabulary, "some words", 10, 0, ids, 64, &count);
       }},
      {"quern_detokenize", on_memory,
       [](World& w) {
         char bytes[256];
         std::uint64_t needed = 0;
         return quern_detokenize(w.vocabulary, some_ids().data(), some_ids().size(), 0, bytes, sizeof bytes, &needed);
       }},
      {"quern_token_bytes", on_memory,
       [](World& w) {
         const char* bytes = nullptr;
         std::uint64_t size = 0;
         return quern_token_bytes(w.vocabulary, 40, &bytes, &size);
       }},
      {"quern_render_chat", on_memory,
       [](World& w) {
         const quern_message message{sizeof message, "user", "hi", 0};
         return text_made([&](auto** out) { return quern_render_chat(w.vocabulary, &message, 1, 0, out); });
       }},
      {"quern_tokenize_chat", on_memory,
       [](World& w) {
         std::int32_t ids[64];
         std::uint64_t count = 0;
         return quern_tokenize_chat(w.vocabulary, "some words", 10, 0, ids, 64, &count);
       }},
      {"quern_tokenize_rendered", on_memory,
       [](World& w) {
         const quern_message message{sizeof message, "user", "hi", 0};
         quern_text* chat = nullptr;
         quern_status status = quern_render_chat(w.vocabulary, &message, 1, 0, &chat);
         std::int32_t ids[256];
         std::uint64_t count = 0;
         if (status == QUERN_OK) status = quern_tokenize_rendered(w.vocabulary, chat, 0, ids, 256, &count);
         quern_text_release(chat);
         return status;
       }},
      {"quern_vocabulary_set_template_seconds", on_memory, [](World& w) { return quern_vocabulary_set_template_seconds(w.vocabulary, 2); }},
      {"quern_show_json", alone,
       [](World& w) { return text_made([&](auto** out) { return quern_show_json(w.model_file.c_str(), out); }); }},
      {"quern_model_load", on_owner,
       [](World& w) {
         const quern_model_options options = small_model();
         return made<quern_model>([&](auto** out) { return quern_model_load(w.runtime, w.model_file.c_str(), &options, out); },
                                  quern_model_release);
       }},
      {"quern_model_release", alone, [](World&) { return quern_model_release(nullptr), QUERN_OK; }},
      {"quern_model_get_info", on_owner,
       [](World& w) { return filled<quern_model_info>([&](auto* out) { return quern_model_get_info(w.model, out); }); }},
      {"quern_model_vocabulary", on_memory,
       [](World& w) { return quern_model_vocabulary(w.model) != nullptr ? QUERN_OK : QUERN_INTERNAL; }},
      {"quern_model_placement_words", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_model_placement_words(w.model, out); }); }},
      {"quern_model_placement_json", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_model_placement_json(w.model, out); }); }},
      {"quern_model_plan_words", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_model_plan_words(w.model, out); }); }},
      {"quern_model_plan_json", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_model_plan_json(w.model, out); }); }},
      {"quern_session_create", on_owner,
       [](World& w) {
         return made<quern_session>([&](auto** out) { return quern_session_create(w.model, nullptr, out); }, quern_session_release);
       }},
      {"quern_session_release", alone, [](World&) { return quern_session_release(nullptr), QUERN_OK; }},
      {"quern_cancel", on_memory, [](World& w) { return quern_cancel(w.session), QUERN_OK; }},
      {"quern_sequence_length", on_owner,
       [](World& w) {
         std::uint64_t length = 0;
         return quern_sequence_length(w.session, 0, &length);
       }},
      {"quern_sequence_truncate", on_owner, [](World& w) { return quern_sequence_truncate(w.session, 1, 0); }},
      {"quern_sequence_copy", on_owner, [](World& w) { return quern_sequence_copy(w.session, 0, 1); }},
      {"quern_generate", on_owner,
       [](World& w) {
         const quern_request one = request(some_ids(), 1, 2);
         return made<quern_generation>([&](auto** out) { return quern_generate(w.session, &one, 1, out); }, quern_generation_release);
       }},
      {"quern_generation_answer", on_memory,
       [](World& w) { return filled<quern_answer_info>([&](auto* out) { return quern_generation_answer(w.generation, 0, out); }); }},
      {"quern_generation_top", on_memory,
       [](World& w) {
         const std::int32_t* ids = nullptr;
         const float* logprobs = nullptr;
         std::uint64_t count = 0;
         return quern_generation_top(w.generation, 0, 0, &ids, &logprobs, &count);
       }},
      {"quern_generation_release", on_memory, [](World&) { return quern_generation_release(nullptr), QUERN_OK; }},
      {"quern_evaluate", on_owner,
       [](World& w) {
         return made<quern_evaluation>(
             [&](auto** out) { return quern_evaluate(w.session, 1, some_ids().data(), some_ids().size(), 0, out); },
             quern_evaluation_release);
       }},
      {"quern_evaluate_with", on_owner,
       [](World& w) {
         quern_evaluate_options options{};
         options.struct_size = sizeof options;
         return made<quern_evaluation>(
             [&](auto** out) { return quern_evaluate_with(w.session, 1, some_ids().data(), some_ids().size(), &options, out); },
             quern_evaluation_release);
       }},
      {"quern_evaluation_get_info", on_memory,
       [](World& w) { return filled<quern_evaluation_info>([&](auto* out) { return quern_evaluation_get_info(w.evaluation, out); }); }},
      {"quern_evaluation_release", on_memory, [](World&) { return quern_evaluation_release(nullptr), QUERN_OK; }},
      {"quern_embed", on_owner,
       [](World& w) {
         std::vector<float> vector(4096);
         std::uint64_t needed = 0;
         return quern_embed(w.session, 1, some_ids().data(), some_ids().size(), QUERN_POOL_MEAN, 0, vector.data(), vector.size(), &needed);
       }},
      {"quern_session_save", on_owner,
       [](World& w) {
         std::uint64_t needed = 0;
         return quern_session_save(w.session, nullptr, 0, &needed);
       }},
      {"quern_session_save_file", on_owner, [](World& w) { return quern_session_save_file(w.session, (w.folder + "/state").c_str()); }},
      {"quern_session_restore", on_owner, [](World& w) { return quern_session_restore(w.session, w.state.data(), w.state.size()); }},
      {"quern_session_restore_file", on_owner,
       [](World& w) { return quern_session_restore_file(w.session, (w.folder + "/saved").c_str()); }},
      {"quern_session_statistics", on_owner,
       [](World& w) {
         return made<quern_statistics>([&](auto** out) { return quern_session_statistics(w.session, out); }, quern_statistics_release);
       }},
      {"quern_statistics_get_info", on_memory,
       [](World& w) { return filled<quern_statistics_info>([&](auto* out) { return quern_statistics_get_info(w.statistics, out); }); }},
      {"quern_statistics_get_device", on_memory,
       [](World& w) {
         return filled<quern_statistics_device>([&](auto* out) { return quern_statistics_get_device(w.statistics, 0, out); });
       }},
      {"quern_statistics_get_cut", on_memory,
       [](World& w) {
         const quern_status status =
             filled<quern_statistics_cut>([&](auto* out) { return quern_statistics_get_cut(w.statistics, 0, out); });
         return status == QUERN_NOT_FOUND ? QUERN_OK : status;  // one device has no cut
       }},
      {"quern_statistics_json", on_memory,
       [](World& w) { return text_made([&](auto** out) { return quern_statistics_json(w.statistics, out); }); }},
      {"quern_statistics_release", on_memory, [](World&) { return quern_statistics_release(nullptr), QUERN_OK; }},
      {"quern_session_trace_start", on_owner, [](World& w) { return quern_session_trace_start(w.session); }},
      {"quern_session_trace_json", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_session_trace_json(w.session, out); }); }},
      {"quern_tensor_create", on_owner,
       [](World& w) {
         const std::int64_t shape[] = {2, 2};
         return made<quern_tensor>([&](auto** out) { return quern_tensor_create(w.runtime, nullptr, QUERN_F32, shape, 2, out); },
                                   quern_tensor_release);
       }},
      {"quern_tensor_release", alone, [](World&) { return quern_tensor_release(nullptr), QUERN_OK; }},
      {"quern_tensor_get_info", on_owner,
       [](World& w) { return filled<quern_tensor_info>([&](auto* out) { return quern_tensor_get_info(w.tensor, out); }); }},
      {"quern_tensor_write", on_owner,
       [](World& w) {
         const float values[4] = {1, 2, 3, 4};
         return quern_tensor_write(w.tensor, 0, values, sizeof values);
       }},
      {"quern_tensor_read", on_owner,
       [](World& w) {
         float values[4];
         return quern_tensor_read(w.tensor, 0, values, sizeof values);
       }},
      {"quern_tensor_copy", on_owner, [](World& w) { return quern_tensor_copy(w.tensor, w.second_tensor); }},
      {"quern_run_op", on_owner,
       [](World& w) {
         const quern_tensor* inputs[] = {w.tensor, w.tensor};
         quern_tensor* outputs[] = {w.second_tensor};
         quern_op_call call{};
         call.struct_size = sizeof call;
         call.op = "add";
         call.inputs = inputs;
         call.input_count = 2;
         call.outputs = outputs;
         call.output_count = 1;
         return quern_run_op(&call, nullptr);
       }},
      {"quern_bench", on_owner,
       [](World& w) {
         quern_bench_options options{};
         options.struct_size = sizeof options;
         options.prompt_tokens = 4;
         options.decode_tokens = 2;
         options.repetitions = 1;
         options.progress = [](void*, const char*, std::uint32_t, double) { return 1; };  // before a second of measuring
         const quern_status status = filled<quern_bench_result>([&](auto* out) { return quern_bench(w.model, &options, out); });
         return status == QUERN_CANCELLED ? QUERN_OK : status;
       }},
      {"quern_estimate_file", on_owner,
       [](World& w) {
         return made<quern_estimate>([&](auto** out) { return quern_estimate_file(w.runtime, w.model_file.c_str(), nullptr, out); },
                                     quern_estimate_release);
       }},
      {"quern_estimate_shape", alone,
       [](World&) {
         quern_shape shape{};
         shape.struct_size = sizeof shape;
         shape.hidden = shape.feed_forward = 64;
         shape.layers = 2;
         shape.vocabulary = 100;
         shape.heads = 4;
         return made<quern_estimate>([&](auto** out) { return quern_estimate_shape(&shape, nullptr, out); }, quern_estimate_release);
       }},
      {"quern_estimate_get_info", on_memory,
       [](World& w) { return filled<quern_estimate_info>([&](auto* out) { return quern_estimate_get_info(w.estimate, out); }); }},
      {"quern_estimate_dtype", on_memory,
       [](World& w) {
         const char* name = nullptr;
         std::uint64_t bytes = 0;
         return quern_estimate_dtype(w.estimate, 0, &name, &bytes, nullptr);
       }},
      {"quern_estimate_release", on_memory, [](World&) { return quern_estimate_release(nullptr), QUERN_OK; }},
      {"quern_pull", alone,
       [](World& w) {
         const quern_hub_options options = offline_hub(w);
         const quern_status status = text_made([&](auto** out) { return quern_pull("owner/name", &options, out); });
         return status == QUERN_NOT_FOUND ? QUERN_OK : status;
       }},
      {"quern_find_model", alone,
       [](World& w) {
         const quern_hub_options options = offline_hub(w);
         const quern_status status = text_made([&](auto** out) { return quern_find_model("owner/name", &options, out); });
         return status == QUERN_NOT_FOUND ? QUERN_OK : status;
       }},
      {"quern_cached_models_json", alone,
       [](World& w) {
         const quern_hub_options options = offline_hub(w);
         return text_made([&](auto** out) { return quern_cached_models_json(&options, out); });
       }},
      {"quern_remove_model", alone,
       [](World& w) {
         const quern_hub_options options = offline_hub(w);
         const quern_status status = quern_remove_model("owner/name", &options, nullptr);
         return status == QUERN_NOT_FOUND ? QUERN_OK : status;
       }},
      {"quern_merge", on_owner,
       [](World& w) {
         const std::string adapter = w.folder + "/run";
         const quern_merge_adapter one{sizeof one, adapter.c_str(), 1};
         return quern_merge(w.runtime, w.model_file.c_str(), &one, 1, nullptr, (w.folder + "/merged.gguf").c_str());
       }},
      {"quern_convert", on_owner,
       [](World& w) {
         const std::string out = w.folder + "/converted.gguf";
         ::unlink(out.c_str());  // of the call before
         return quern_convert(w.runtime, w.model_file.c_str(), out.c_str(), nullptr);
       }},
      {"quern_quantize", on_owner,
       [](World& w) {
         quern_quantize_options options{};
         options.struct_size = sizeof options;
         options.type = "Q8_0";
         const quern_quantize_options* chosen = &options;
         const std::string out = w.folder + "/quantised.gguf";
         std::filesystem::remove(out);
         return text_made([&](auto** text) { return quern_quantize(w.runtime, w.model_file.c_str(), out.c_str(), chosen, text); });
       }},
      {"quern_imatrix", on_owner,
       [](World& w) {
         const std::string out = w.folder + "/matrix.gguf";
         return text_made([&](auto** text) {
           return quern_imatrix(w.runtime, w.model_file.c_str(), "a b c", 5, nullptr, out.c_str(), text);
         });
       }},
      {"quern_export_adapter", alone,
       [](World& w) {
         return quern_export_adapter((w.folder + "/run").c_str(), w.model_file.c_str(), QUERN_ADAPTER_GGUF, QUERN_F32,
                                     (w.folder + "/adapter.gguf").c_str());
       }},
      {"quern_adapter_load", on_owner,
       [](World& w) {
         return made<quern_adapter>([&](auto** out) { return quern_adapter_load(w.model, (w.folder + "/run").c_str(), out); },
                                    quern_adapter_release);
       }},
      {"quern_adapter_release", on_memory, [](World&) { return quern_adapter_release(nullptr), QUERN_OK; }},
      {"quern_adapter_get_info", on_memory,
       [](World& w) { return filled<quern_adapter_info>([&](auto* out) { return quern_adapter_get_info(w.adapter, out); }); }},
      {"quern_session_use_adapter", on_owner, [](World& w) { return quern_session_use_adapter(w.session, 1, w.adapter, 1); }},
      {"quern_training_open", alone,
       [](World& w) {
         const std::string json = training_settings(w);
         return made<quern_training>([&](auto** out) { return quern_training_open(json.c_str(), nullptr, out); }, quern_training_release);
       }},
      {"quern_training_release", on_memory, [](World&) { return quern_training_release(nullptr), QUERN_OK; }},
      {"quern_training_get_info", on_memory,
       [](World& w) { return filled<quern_training_info>([&](auto* out) { return quern_training_get_info(w.training, out); }); }},
      {"quern_training_yaml", on_memory,
       [](World& w) { return text_made([&](auto** out) { return quern_training_yaml(w.training, out); }); }},
      {"quern_training_notes", on_memory,
       [](World& w) { return text_made([&](auto** out) { return quern_training_notes(w.training, out); }); }},
      {"quern_training_estimate_json", on_owner,
       [](World& w) {
         return text_made([&](auto** out) { return quern_training_estimate_json(w.runtime, w.training, nullptr, nullptr, out); });
       }},
      {"quern_training_evaluate_json", on_owner,
       [](World& w) {
         return text_made([&](auto** out) { return quern_training_evaluate_json(w.runtime, w.training, nullptr, nullptr, nullptr, out); });
       }},
      {"quern_training_starter", alone,
       [](World&) { return text_made([&](auto** out) { return quern_training_starter("lora", "m.gguf", out); }); }},
      {"quern_trainer_create", on_owner,
       [](World& w) {
         return made<quern_trainer>([&](auto** out) { return quern_trainer_create(w.runtime, w.training, nullptr, nullptr, out); },
                                    quern_trainer_release);
       }},
      {"quern_trainer_release", alone, [](World&) { return quern_trainer_release(nullptr), QUERN_OK; }},
      {"quern_trainer_run", on_owner,
       [](World& w) {
         std::uint32_t end = 0;
         return quern_trainer_run(w.trainer, 1, nullptr, &end);
       }},
      {"quern_trainer_cancel", on_memory, [](World& w) { return quern_trainer_cancel(w.trainer), QUERN_OK; }},
      {"quern_trainer_evaluate", on_owner,
       [](World& w) { return filled<quern_training_evaluation>([&](auto* out) { return quern_trainer_evaluate(w.trainer, out); }); }},
      {"quern_trainer_save", on_owner, [](World& w) { return quern_trainer_save(w.trainer, nullptr); }},
      {"quern_trainer_write_result", on_owner, [](World& w) { return quern_trainer_write_result(w.trainer); }},
      {"quern_trainer_json", on_owner, [](World& w) { return text_made([&](auto** out) { return quern_trainer_json(w.trainer, out); }); }},
      {"quern_trainer_trace_start", on_owner, [](World& w) { return quern_trainer_trace_start(w.trainer); }},
      {"quern_trainer_trace_json", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_trainer_trace_json(w.trainer, out); }); }},
      {"quern_trainer_check_gradients_json", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_trainer_check_gradients_json(w.trainer, out); }); }},
      {"quern_trainer_example_json", on_owner,
       [](World& w) { return text_made([&](auto** out) { return quern_trainer_example_json(w.trainer, 0, out); }); }},
  };
  return calls;
}

/// Names of the functions that quern.h declares and the table lacks.
inline std::vector<std::string> calls_that_lack() {
  std::ifstream file(std::string(QUERN_SOURCE_DIR) + "/runtime/include/quern.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  std::set<std::string> names;
  const std::regex declaration("QUERN_API [^;(]*?(quern_[a-z0-9_]+)\\(");
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  EXPECT_GT(names.size(), 70u);
  for (const ApiCall& call : every_call()) names.erase(call.name);
  return {names.begin(), names.end()};
}

/// Makes all of it, on the CPU. `log` may be null.
inline World make_world(quern_log_callback log = nullptr, void* log_user = nullptr) {
  World w;
  w.model_file = model_path("micro-llama-q8_0.gguf");
  char folder[] = "/tmp/quern-calls-XXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  w.folder = folder;
  quern_runtime_options options{};
  options.struct_size = sizeof options;
  options.ignore_environment = 1;
  options.backend = "cpu";
  options.threads = 2;
  options.log = log;
  options.log_user = log_user;
  options.log_level = QUERN_LEVEL_TRACE;
  const auto check = [](quern_status status) { ASSERT_EQ(status, QUERN_OK) << quern_last_error(); };
  check(quern_runtime_create(&options, &w.runtime));
  const std::int64_t shape[] = {2, 2};
  check(quern_tensor_create(w.runtime, nullptr, QUERN_F32, shape, 2, &w.tensor));
  check(quern_tensor_create(w.runtime, nullptr, QUERN_F32, shape, 2, &w.second_tensor));
  check(quern_vocabulary_open(w.model_file.c_str(), &w.vocabulary));
  std::ofstream(w.folder + "/data.jsonl") << "{\"input_ids\": [1, 40, 41, 42]}\n{\"input_ids\": [1, 43, 44]}\n";
  check(quern_training_open(training_settings(w).c_str(), nullptr, &w.training));
  check(quern_trainer_create(w.runtime, w.training, nullptr, nullptr, &w.trainer));
  check(quern_trainer_write_result(w.trainer));  // an adapter for the calls that read one
  const std::string adapter = w.folder + "/run";
  const char* adapters[] = {adapter.c_str()};
  quern_model_options model = small_model();
  model.adapters = adapters;
  model.adapter_count = 1;
  check(quern_model_load(w.runtime, w.model_file.c_str(), &model, &w.model));
  check(quern_adapter_load(w.model, adapter.c_str(), &w.adapter));
  quern_session_options two{};
  two.struct_size = sizeof two;
  two.sequences = 2;
  check(quern_session_create(w.model, &two, &w.session));
  check(quern_runtime_load_report(w.runtime, &w.report));
  check(quern_runtime_devices(w.runtime, &w.devices));
  quern_request one = request(some_ids(), 0, 3);
  one.logprobs = 2;
  check(quern_generate(w.session, &one, 1, &w.generation));
  check(quern_evaluate(w.session, 1, some_ids().data(), some_ids().size(), 0, &w.evaluation));
  check(quern_session_statistics(w.session, &w.statistics));
  check(quern_estimate_file(nullptr, w.model_file.c_str(), nullptr, &w.estimate));
  check(quern_model_placement_words(w.model, &w.text));
  check(quern_session_save_file(w.session, (w.folder + "/saved").c_str()));
  std::uint64_t needed = 0;
  check(quern_session_save(w.session, nullptr, 0, &needed));
  w.state.resize(needed);
  check(quern_session_save(w.session, w.state.data(), needed, &needed));
  return w;
}

/// Releases each handle; null ones and a second time are fine.
inline void release_world(World& w) {
  const auto drop = [](auto*& handle, auto release) {
    release(handle);
    handle = nullptr;
  };
  drop(w.session, quern_session_release);
  drop(w.adapter, quern_adapter_release);
  drop(w.tensor, quern_tensor_release);
  drop(w.second_tensor, quern_tensor_release);
  drop(w.model, quern_model_release);
  drop(w.runtime, quern_runtime_release);
  drop(w.vocabulary, quern_vocabulary_release);
  drop(w.report, quern_load_report_release);
  drop(w.devices, quern_device_list_release);
  drop(w.generation, quern_generation_release);
  drop(w.evaluation, quern_evaluation_release);
  drop(w.statistics, quern_statistics_release);
  drop(w.estimate, quern_estimate_release);
  drop(w.trainer, quern_trainer_release);
  drop(w.training, quern_training_release);
  drop(w.text, quern_text_release);
}

/// make_world() with an owner.
struct OwnedWorld : World {
  explicit OwnedWorld(quern_log_callback log = nullptr, void* log_user = nullptr) : World(make_world(log, log_user)) {}
  OwnedWorld(const OwnedWorld&) = delete;
  OwnedWorld& operator=(const OwnedWorld&) = delete;
  ~OwnedWorld() {
    release_world(*this);
    std::error_code failed;
    std::filesystem::remove_all(folder, failed);
  }
};

}  // namespace quern::test
