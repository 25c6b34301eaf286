// What plans keep for themselves is memory of their device: limits hold for it, estimates and statistics say it.
#include "api_support.hpp"

#include <cstring>

namespace quern::test {
namespace {

constexpr std::uint64_t kept = 3 << 20;  // of a plan of the plugin "keeping"

Handle<quern_runtime> runtime_on(const std::string& backend, const std::string& memory = {}) {
  quern_runtime_options options{};
  options.backend = backend.c_str();
  options.backend_extra_path = QUERN_KEEPING_DIRECTORY;
  options.memory = memory.empty() ? nullptr : memory.c_str();
  return make_runtime(options);
}

quern_estimate_info estimate_on(const std::string& backend, const std::string& path) {
  const auto runtime = runtime_on(backend);
  quern_estimate_info info{};
  info.struct_size = sizeof info;
  quern_estimate* estimate = nullptr;
  EXPECT_EQ(quern_estimate_file(runtime.get(), path.c_str(), nullptr, &estimate), QUERN_OK) << quern_last_error();
  if (estimate == nullptr) return info;
  EXPECT_EQ(quern_estimate_get_info(estimate, &info), QUERN_OK);
  quern_estimate_release(estimate);
  return info;
}

quern_status load_under(std::uint64_t limit, const std::string& path) {
  const auto runtime = runtime_on("keeping", "keeping=" + std::to_string(limit));
  quern_model* model = nullptr;
  const quern_status status = quern_model_load(runtime.get(), path.c_str(), nullptr, &model);
  quern_model_release(model);
  return status;
}

TEST(PlanMemory, CountsUnderTheLimit) {
  const std::string path = model_path("micro-llama-f32.gguf");
  const quern_estimate_info plain = estimate_on("cpu", path), keeping = estimate_on("keeping", path);
  EXPECT_EQ(keeping.scratch_bytes, plain.scratch_bytes + kept);
  const std::uint64_t without = plain.weights_bytes + plain.kv_bytes + plain.scratch_bytes;
  EXPECT_EQ(load_under(without + kept, path), QUERN_OK) << quern_last_error();
  EXPECT_EQ(load_under(without + kept - 1, path), QUERN_DOES_NOT_FIT);
}

TEST(PlanMemory, IsInASessionsStatisticsAndGoesWithIt) {
  const auto runtime = runtime_on("keeping");
  const auto model = load(runtime.get(), model_path("micro-llama-f32.gguf"));
  ASSERT_NE(model, nullptr);
  const auto peak_of = [&](std::uint64_t& scratch) {
    const auto session = make_session(model.get());
    quern_statistics* statistics = nullptr;
    EXPECT_EQ(quern_session_statistics(session.get(), &statistics), QUERN_OK) << quern_last_error();
    const Handle<quern_statistics> owner(statistics);
    quern_statistics_device device{};
    device.struct_size = sizeof device;
    EXPECT_EQ(quern_statistics_get_device(statistics, 0, &device), QUERN_OK) << quern_last_error();
    scratch = device.scratch_bytes;
    return device.peak_bytes - device.weights_bytes - device.kv_bytes;
  };
  std::uint64_t scratch = 0, again = 0;
  const std::uint64_t first = peak_of(scratch);
  EXPECT_GE(scratch, kept);
  EXPECT_GE(first, scratch);
  EXPECT_EQ(peak_of(again), first) << "a session that is gone still counts";
  EXPECT_EQ(again, scratch);
}

}  // namespace
}  // namespace quern::test
