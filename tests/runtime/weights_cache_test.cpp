// Packed weights kept in files, as a program meets them: the second load maps what the first one wrote, with the same answers, and
// whatever is wrong with the files the model loads.
#include "api_support.hpp"

#include "support/test_clock.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace quern::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class WeightsCache : public testing::Test {
 protected:
  WeightsCache() : folder_(fs::path(testing::TempDir()) / ("quern-weights-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WeightsCache() override { fs::remove_all(folder_); }

  struct Loaded {
    std::string placement;
    std::vector<std::int32_t> ids;
    std::uint64_t peak = 0;
  };
  /// Loads, answers, and releases, so that a file is written when it returns.
  Loaded run(const std::string& path, const char* mode = "on", const char* limit = nullptr, quern_model_options model_options = {}) {
    quern_runtime_options options{};
    options.backend = "cpu";
    options.threads = 2;
    const std::string cache = folder_ / "cache";
    options.cache_dir = cache.c_str();
    options.weights_cache = mode;
    options.weights_cache_limit = limit;
    options.log = [](void* user, std::uint32_t, const char*, const char* text) {
      *static_cast<std::string*>(user) += std::string(text) + "\n";
    };
    options.log_user = &log_;
    log_.clear();
    const auto runtime = make_runtime(options);
    const auto model = load(runtime.get(), path, model_options);
    Loaded loaded;
    if (model == nullptr) return loaded;
    quern_text* text = nullptr;
    EXPECT_EQ(quern_model_placement_json(model.get(), &text), QUERN_OK);
    loaded.placement = quern_text_data(text);
    quern_text_release(text);
    const auto session = make_session(model.get());
    loaded.ids = draw(session.get(), request({5, 6, 7}, 0, 12));
    quern_statistics* statistics = nullptr;
    EXPECT_EQ(quern_session_statistics(session.get(), &statistics), QUERN_OK);
    quern_statistics_device device{};
    device.struct_size = sizeof(device);
    EXPECT_EQ(quern_statistics_get_device(statistics, 0, &device), QUERN_OK);
    loaded.peak = device.peak_bytes;
    quern_statistics_release(statistics);
    return loaded;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache" / "weights", none)) found.push_back(entry.path());
    return found;
  }
  std::string copy_of_the_model() const {
    const fs::path copy = folder_ / "model.gguf";
    fs::copy_file(model_, copy, fs::copy_options::overwrite_existing);
    return copy;
  }
  static void flip_byte(const fs::path& path, std::int64_t from_end) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
  }
  static constexpr const char* from_cache = "\"weights_from\": \"cache\"";
  static constexpr const char* from_model = "\"weights_from\": \"model\"";

  fs::path folder_;
  std::string model_ = model_path("micro-llama-f32.gguf"), log_;
  TestClock clock_;
};

TEST_F(WeightsCache, TheSecondLoadMapsWhatTheFirstWroteWithTheSameAnswer) {
  const Loaded without = run(model_, "off");
  EXPECT_TRUE(files().empty());
  const Loaded first = run(model_);
  EXPECT_THAT(first.placement, HasSubstr(from_model));
  EXPECT_THAT(log_, HasSubstr("packed weights kept in"));
  ASSERT_EQ(files().size(), 1u);
  const Loaded second = run(model_);
  EXPECT_THAT(second.placement, HasSubstr(from_cache));
  EXPECT_THAT(second.placement, HasSubstr(files()[0].string()));
  EXPECT_EQ(second.ids, without.ids);
  EXPECT_EQ(second.ids, first.ids);
  EXPECT_EQ(second.peak, without.peak);  // mapped weights count as allocated ones
  EXPECT_THAT(run(model_, "verify").placement, HasSubstr(from_cache));
  EXPECT_THAT(run(model_, "off").placement, HasSubstr(from_model));
}

TEST_F(WeightsCache, IsOffByDefault) {
  EXPECT_THAT(run(model_, nullptr).placement, HasSubstr(from_model));
  EXPECT_TRUE(files().empty());
}

TEST_F(WeightsCache, AChangedModelIsPackedAnewAndReplacesItsFile) {
  constexpr std::chrono::seconds old_enough{3};  // the rule: nothing younger than 2 s is kept
  const std::string copy = copy_of_the_model();
  clock_.be_ahead(old_enough);
  const Loaded first = run(copy);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_THAT(run(copy).placement, HasSubstr(from_cache));
  // A byte in the middle of a tensor, and the old time of change: only the system's own stamp tells.
  const auto time = fs::last_write_time(copy);
  const auto middle = static_cast<std::int64_t>(fs::file_size(copy) / 2);
  flip_byte(copy, middle);
  fs::last_write_time(copy, time);
  clock_.be_ahead(-std::chrono::hours(1));  // however long the load takes, the change is a moment ago
  const Loaded changed = run(copy);
  EXPECT_THAT(changed.placement, HasSubstr(from_model));
  EXPECT_THAT(changed.placement, HasSubstr("the model's file has changed since"));
  EXPECT_THAT(log_, HasSubstr("changed a moment ago"));  // nothing is kept of a file that may still be written
  clock_.be_ahead(old_enough);
  run(copy);
  EXPECT_EQ(files().size(), 1u);
  EXPECT_THAT(run(copy).placement, HasSubstr(from_cache));
}

TEST_F(WeightsCache, DamagedAndTruncatedFilesAreSaidAndReplaced) {
  const Loaded first = run(model_);
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  flip_byte(file, 1000);
  const Loaded damaged = run(model_);
  EXPECT_THAT(damaged.placement, HasSubstr(from_model));
  EXPECT_THAT(damaged.placement, HasSubstr("damaged"));
  EXPECT_EQ(damaged.ids, first.ids);
  EXPECT_THAT(run(model_).placement, HasSubstr(from_cache));
  fs::resize_file(file, fs::file_size(file) / 2);
  EXPECT_THAT(run(model_).placement, HasSubstr("instead of"));
  EXPECT_THAT(run(model_).placement, HasSubstr(from_cache));
  std::ofstream(file, std::ios::trunc) << std::string(5000, '\xff');
  EXPECT_THAT(run(model_).placement, HasSubstr("not a file of weights"));
  EXPECT_THAT(run(model_).placement, HasSubstr(from_cache));
}

TEST_F(WeightsCache, AFolderThatCannotBeWrittenStopsNothing) {
  fs::create_directories(folder_ / "cache");
  std::ofstream(folder_ / "cache" / "weights") << "in the way";
  const Loaded loaded = run(model_);
  EXPECT_EQ(loaded.ids.size(), 12u);
  EXPECT_THAT(log_, HasSubstr("the packed weights are not kept"));
}

TEST_F(WeightsCache, AFileLargerThanTheLimitIsNotWritten) {
  const Loaded loaded = run(model_, "on", "1K");
  EXPECT_THAT(loaded.placement, HasSubstr("the limit is 1.0 KiB"));
  EXPECT_TRUE(files().empty());
}

TEST_F(WeightsCache, ExactNumericsPackNothingAndKeepNothing) {
  quern_model_options options{};
  options.activations = QUERN_ACTIVATIONS_F32;
  EXPECT_THAT(run(model_, "on", nullptr, options).placement, HasSubstr("nothing is packed"));
  EXPECT_TRUE(files().empty());
}

TEST_F(WeightsCache, RefusesASettingThatItCannotRead) {
  quern_runtime_options options{};
  options.struct_size = sizeof(options);
  options.weights_cache = "maybe";
  quern_runtime* runtime = nullptr;
  EXPECT_EQ(quern_runtime_create(&options, &runtime), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_last_error(), HasSubstr("weights_cache is 'maybe'"));
  options.weights_cache = "on";
  options.weights_cache_limit = "much";
  EXPECT_EQ(quern_runtime_create(&options, &runtime), QUERN_INVALID_ARGUMENT);
  EXPECT_THAT(quern_last_error(), HasSubstr("weights_cache_limit is 'much'"));
}

}  // namespace
}  // namespace quern::test
