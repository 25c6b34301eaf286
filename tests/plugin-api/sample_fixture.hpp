// Loads the sample plugin by its file and drives it through the raw table, as a host does.
#ifndef QUERN_TESTS_PLUGIN_API_SAMPLE_FIXTURE_HPP
#define QUERN_TESTS_PLUGIN_API_SAMPLE_FIXTURE_HPP

#include "test_host.hpp"

#include "quern/quern_ops.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace quern_test {

inline std::string sample_path() {
  const char* path = std::getenv("QUERN_SAMPLE_PLUGIN");  // set by the test of a build against installed headers
  return path != nullptr ? path : QUERN_SAMPLE_PLUGIN_FILE;
}

inline quern_plugin_query_fn sample_query() {
  void* library = dlopen(sample_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<quern_plugin_query_fn>(dlsym(library, QUERN_PLUGIN_QUERY_NAME));
}

/// Of the plugin's own headers: what it answers a host of a far later minor.
inline std::uint32_t sample_minor() {
  quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
  query.abi_minor = 999;
  quern_plugin_api table = zeroed<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  if (sample_query()(&query, &table, nullptr) != QUERN_OK) throw std::runtime_error("the query was refused");
  return table.abi_minor;
}

/// Of the plugin's own headers, which for a stored release are older than these.
inline std::uint32_t sample_op_set() {
  const char* stored = std::getenv("QUERN_SAMPLE_OP_SET");
  return stored != nullptr ? static_cast<std::uint32_t>(std::stoul(stored)) : QUERN_OPSET_VERSION;
}

class SampleTest : public testing::Test {
 protected:
  void SetUp() override {
    quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
    query.abi_minor = QUERN_ABI_MINOR;
    api = zeroed<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
    ASSERT_EQ(sample_query()(&query, &api, error), QUERN_OK) << error.text();
    ASSERT_EQ(api.create(&host.table, &plugin, error), QUERN_OK) << error.text();
    ASSERT_EQ(api.device_open(plugin, 0, &device, error), QUERN_OK) << error.text();
  }

  void TearDown() override {
    for (quern_buffer* b : buffers) EXPECT_EQ(api.buffer_destroy(b, error), QUERN_OK);
    if (device != nullptr) { EXPECT_EQ(api.device_close(device, error), QUERN_OK) << error.text(); }
    if (plugin != nullptr) api.destroy(plugin);
    EXPECT_TRUE(host.live.empty()) << host.live.size() << " blocks were not given back";
    EXPECT_EQ(host.bad_releases, 0);
  }

  quern_span buffer(std::uint64_t bytes) {
    quern_buffer* b = nullptr;
    EXPECT_EQ(api.buffer_create(device, nullptr, bytes, &b, error), QUERN_OK) << error.text();
    buffers.push_back(b);
    return {b, nullptr, 0, bytes};
  }
  template <class T>
  quern_span holding(const std::vector<T>& data) {
    const quern_span span = buffer(data.size() * sizeof(T));
    EXPECT_EQ(done(api.upload(device, queue, &span, data.data(), span.bytes, next_point(), error)), QUERN_OK) << error.text();
    return span;
  }
  template <class T = float>
  std::vector<T> contents(const quern_span& span) {
    std::vector<T> data(span.bytes / sizeof(T));
    EXPECT_EQ(done(api.download(device, queue, data.data(), &span, span.bytes, next_point(), error)), QUERN_OK) << error.text();
    return data;
  }

  /// The sync of a call on `queue`, for done(); null without one.
  const quern_sync* next_point() {
    if (queue == nullptr) return nullptr;
    point = {fence, point.value + 1};
    sync = zeroed<quern_sync>(QUERN_TYPE_SYNC);
    sync.signal = {&point, 1, sizeof point};
    return &sync;
  }
  /// Waits for a call that was made with next_point().
  quern_status done(quern_status status) {
    if (queue == nullptr || status != QUERN_OK) return status;
    const quern_array points = {&point, 1, sizeof point};
    return api.fence_wait(device, &points, 0, UINT64_MAX, error);
  }

  quern_answer answer(GraphBuilder& g, std::size_t node = 0) {
    std::vector<quern_answer> answers(g.nodes.size(), zeroed<quern_answer>(QUERN_TYPE_ANSWER));
    EXPECT_EQ(api.support(device, g.get(), nullptr, answers.data(), error), QUERN_OK) << error.text();
    return answers[node];
  }
  std::string refusal(GraphBuilder& g, std::size_t node = 0) {
    const quern_answer a = answer(g, node);
    return a.verdict == QUERN_ANSWER_NO ? std::string(a.text.data, a.text.size) : std::string();
  }

  /// A plan and one instance of it, bound and prepared.
  struct Ready {
    quern_plan* plan = nullptr;
    quern_instance* instance = nullptr;
    quern_instance_info info = zeroed<quern_instance_info>(QUERN_TYPE_INSTANCE_INFO);
    quern_status prepared = QUERN_OK;
  };
  Ready ready(GraphBuilder& g, const std::map<std::uint32_t, quern_span>& places, std::vector<quern_bound> bounds = {}) {
    Ready r;
    EXPECT_EQ(api.compile(device, g.get(), nullptr, &r.plan, error), QUERN_OK) << error.text();
    quern_instance_options options = zeroed<quern_instance_options>(QUERN_TYPE_INSTANCE_OPTIONS);
    options.bounds = list(bounds);
    EXPECT_EQ(api.instance_create(r.plan, &options, &r.instance, &r.info, error), QUERN_OK) << error.text();
    r.prepared = prepare(r, places);
    return r;
  }
  quern_status prepare(const Ready& r, const std::map<std::uint32_t, quern_span>& places) {
    std::vector<quern_binding> bindings;
    for (const auto& [value, span] : places) {
      bindings.push_back(zeroed<quern_binding>(QUERN_TYPE_BINDING));
      bindings.back().value = value;
      bindings.back().spans = {&span, 1, sizeof span};
    }
    quern_prepare_entry entry = zeroed<quern_prepare_entry>(QUERN_TYPE_PREPARE_ENTRY);
    entry.instance = r.instance;
    entry.bindings = list(bindings);
    if (r.info.scratch_bytes != 0) entry.scratch = buffer(r.info.scratch_bytes);
    const quern_array entries = {&entry, 1, sizeof entry};
    return done(api.prepare(device, queue, &entries, next_point(), error));
  }
  void drop(const Ready& r) {
    EXPECT_EQ(api.instance_destroy(r.instance, error), QUERN_OK) << error.text();
    EXPECT_EQ(api.plan_destroy(r.plan, error), QUERN_OK) << error.text();
  }

  static quern_run run_of(const Ready& r) {
    quern_run run = zeroed<quern_run>(QUERN_TYPE_RUN);
    run.instance = r.instance;
    return run;
  }
  quern_status submit(const quern_run& run) {
    const quern_array runs = {&run, 1, sizeof run};
    return api.submit(device, queue, &runs, error);
  }
  /// Submits one run; returns how it ended.
  quern_run_status run(const Ready& r, std::vector<quern_patch> patches = {}, std::vector<quern_bound> bounds = {}) {
    quern_run_status status = zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    quern_run run = run_of(r);
    run.patches = list(patches);
    run.bounds = list(bounds);
    run.status = &status;
    EXPECT_EQ(submit(run), QUERN_OK) << error.text();
    return status;
  }

  Host host;
  Error error;
  quern_plugin_api api = {};
  quern_plugin* plugin = nullptr;
  quern_device* device = nullptr;
  std::vector<quern_buffer*> buffers;
  quern_queue* queue = nullptr;  // of a device that is not synchronous; a test makes it, with its fence
  quern_fence* fence = nullptr;
  quern_point point = {};  // the last that was asked for
  quern_sync sync = {};
};

}  // namespace quern_test

#endif
