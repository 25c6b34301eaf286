// Small owners of C handles, for tests of the C API.
#pragma once

#include "quern.h"

#include <gtest/gtest.h>

#include <cctype>

#include <memory>
#include <string>
#include <vector>

namespace quern::test {

struct Release {
  void operator()(quern_runtime* p) const { quern_runtime_release(p); }
  void operator()(quern_model* p) const { quern_model_release(p); }
  void operator()(quern_session* p) const { quern_session_release(p); }
  void operator()(quern_generation* p) const { quern_generation_release(p); }
  void operator()(quern_text* p) const { quern_text_release(p); }
  void operator()(quern_statistics* p) const { quern_statistics_release(p); }
  void operator()(quern_evaluation* p) const { quern_evaluation_release(p); }
};
template <typename T>
using Handle = std::unique_ptr<T, Release>;

inline std::string model_path(const std::string& name) { return std::string(QUERN_SOURCE_DIR) + "/tests/data/gguf/" + name; }

inline Handle<quern_runtime> make_runtime(quern_runtime_options options = {}) {
  options.struct_size = sizeof(options);
  options.ignore_environment = 1;
  quern_runtime* runtime = nullptr;
  EXPECT_EQ(quern_runtime_create(&options, &runtime), QUERN_OK) << quern_last_error();
  return Handle<quern_runtime>(runtime);
}

inline Handle<quern_model> load(quern_runtime* runtime, const std::string& path, quern_model_options options = {}) {
  options.struct_size = sizeof(options);
  quern_model* model = nullptr;
  EXPECT_EQ(quern_model_load(runtime, path.c_str(), &options, &model), QUERN_OK) << quern_last_error();
  return Handle<quern_model>(model);
}

inline Handle<quern_session> make_session(quern_model* model, quern_session_options options = {}) {
  options.struct_size = sizeof(options);
  quern_session* session = nullptr;
  EXPECT_EQ(quern_session_create(model, &options, &session), QUERN_OK) << quern_last_error();
  return Handle<quern_session>(session);
}

inline quern_request request(const std::vector<std::int32_t>& prompt, std::uint32_t sequence, std::uint64_t max_tokens) {
  quern_request r{};
  r.struct_size = sizeof(r);
  r.prompt = prompt.data();
  r.prompt_count = prompt.size();
  r.sequence = sequence;
  r.max_tokens = max_tokens;
  r.ignore_end = 1;
  return r;
}

inline std::vector<std::int32_t> ids_of(quern_generation* generation, std::uint64_t index) {
  quern_answer_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(quern_generation_answer(generation, index, &info), QUERN_OK) << quern_last_error();
  return {info.ids, info.ids + info.id_count};
}

/// Ids that one request draws.
inline std::vector<std::int32_t> draw(quern_session* session, const quern_request& r) {
  quern_generation* generation = nullptr;
  EXPECT_EQ(quern_generate(session, &r, 1, &generation), QUERN_OK) << quern_last_error();
  const Handle<quern_generation> owner(generation);
  return generation == nullptr ? std::vector<std::int32_t>{} : ids_of(generation, 0);
}

}  // namespace quern::test
