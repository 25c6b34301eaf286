// What the plugin says without a Vulkan loader, with a manifest that names no driver, and without a manifest: it loads, and its probe gives
// a reason with a remedy. Which values of the option `memory` it takes. And what it changes in a kernel before the driver sees it.
#include "api.hpp"
#include "spirv.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include <dlfcn.h>

namespace {

namespace sdk = quern::sdk;
using quern::vulkan::Api;
using quern::vulkan::with_float_controls;

TEST(Loader, ThatIsNotInstalledIsNamed) {
  try {
    Api::open("libvulkan-that-is-not-installed.so.1");
    FAIL() << "it was opened";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code, QUERN_DRIVER_MISSING);
    EXPECT_NE(failure.text.find("libvulkan-that-is-not-installed.so.1"), std::string::npos) << failure.text;
  }
}

TEST(Loader, AnotherLibraryIsNone) {
  try {
    Api::open("libm.so.6");
    FAIL() << "it was opened";
  } catch (const sdk::Failure& failure) { EXPECT_EQ(failure.code, QUERN_DEPENDENCY_MISSING); }
}

/// The plugin with the manifests of drivers at a place of the test's.
class Manifests : public testing::Test {
 protected:
  void SetUp() override {
    if (void* loader = dlopen("libvulkan.so.1", RTLD_LAZY); loader == nullptr) GTEST_SKIP() << "there is no Vulkan loader here";
    library_ = dlopen(QUERN_VULKAN_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    auto* query = reinterpret_cast<quern_plugin_query_fn>(dlsym(library_, QUERN_PLUGIN_QUERY_NAME));
    ASSERT_NE(query, nullptr);
    const quern_query ask = sdk::made<quern_query>();
    api_ = sdk::made<quern_plugin_api>();
    ASSERT_EQ(query(&ask, &api_, nullptr), QUERN_OK);
    host_ = sdk::made<quern_host>();
    host_.thread_count = 1;
    ASSERT_EQ(api_.create(&host_, &plugin_, nullptr), QUERN_OK);
  }
  void TearDown() override {
    if (plugin_ != nullptr) api_.destroy(plugin_);
    for (const char* variable : {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"}) unsetenv(variable);
  }
  static void only(const std::string& manifest) {
    for (const char* variable : {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"}) setenv(variable, manifest.c_str(), 1);
  }
  void expect_a_reason() {
    quern_reason reason = sdk::made<quern_reason>();
    quern_probe_report report = sdk::made<quern_probe_report>();
    report.reasons = &reason;
    report.reason_capacity = 1;
    ASSERT_EQ(api_.probe(plugin_, &report, nullptr), QUERN_OK);
    EXPECT_EQ(report.usable, 0u);
    ASSERT_EQ(report.reason_count, 1u);
    EXPECT_EQ(reason.code, QUERN_DRIVER_MISSING);
    EXPECT_NE(sdk::view(reason.text).find("manifest"), std::string_view::npos) << sdk::view(reason.text);
    EXPECT_NE(sdk::view(reason.remedy).find("mesa-vulkan-drivers"), std::string_view::npos) << sdk::view(reason.remedy);
    std::uint32_t count = 7;
    EXPECT_EQ(api_.device_count(plugin_, &count, nullptr), QUERN_DRIVER_MISSING);
    EXPECT_EQ(count, 0u);
  }

  /// What create says where the option `memory` has this value.
  quern_status with_memory(const char* value, std::string& text) {
    quern_host host = host_;
    host.context = const_cast<char*>(value);
    host.option = [](void* context, const char* key, char* to, std::uint64_t capacity) -> std::uint64_t {
      if (std::string_view(key) != "memory") return UINT64_MAX;
      const std::string_view memory = static_cast<const char*>(context);
      sdk::copy_text(memory, to, capacity);
      return memory.size();
    };
    char told[512] = {};
    quern_error error = sdk::made<quern_error>();
    error.text = told;
    error.text_capacity = sizeof told - 1;
    quern_plugin* plugin = nullptr;
    const quern_status status = api_.create(&host, &plugin, &error);
    if (plugin != nullptr) api_.destroy(plugin);
    text = told;
    return status;
  }

  void* library_ = nullptr;
  quern_plugin_api api_{};
  quern_host host_{};
  quern_plugin* plugin_ = nullptr;
};

TEST_F(Manifests, ThatAreMissingAreAReason) {
  only("/nonexistent/driver.json");
  expect_a_reason();
}

TEST_F(Manifests, ThatNameADriverThatIsNotThereAreAReason) {
  const std::string path = testing::TempDir() + "quern_broken_driver.json";
  std::ofstream(path)
      << R"({"file_format_version": "1.0.0", "ICD": {"library_path": "/nonexistent/libvulkan_gone.so", "api_version": "1.3.0"}})";
  only(path);
  expect_a_reason();
}

TEST_F(Manifests, ThatAreNoJsonAreAReason) {
  const std::string path = testing::TempDir() + "quern_damaged_driver.json";
  std::ofstream(path) << "{ \"file_format_version\": ";
  only(path);
  expect_a_reason();
}

TEST_F(Manifests, DoNotMatterToAnOptionThatNoPluginKnows) {
  std::string text;
  for (const char* known : {"", "staged", "plain"})
    EXPECT_EQ(with_memory(known, text), QUERN_OK) << known << ": " << text;  // plain: CUDA's
  EXPECT_EQ(with_memory("stagd", text), QUERN_INVALID_ARGUMENT);
  for (const char* told : {"'stagd'", "staged", "plain"}) EXPECT_NE(text.find(told), std::string::npos) << text;
}

TEST(FloatControls, AreAddedBehindHeaderAndEntryPoint) {
  const std::uint32_t module[] = {0x07230203, 0x00010500, 0, 10, 0, 2u << 16 | 17, 1, 4u << 16 | 15, 5, 7, 0, 1u << 16 | 56};
  const auto* bytes = reinterpret_cast<const unsigned char*>(module);
  EXPECT_EQ(with_float_controls(bytes, sizeof module, false, false), std::vector<std::uint32_t>(std::begin(module), std::end(module)));
  const std::vector<std::uint32_t> expected = {0x07230203, 0x00010500,    0, 10, 0, 2u << 16 | 17, 4464, 2u << 16 | 17,
                                               1,          4u << 16 | 15, 5, 7,  0, 4u << 16 | 16, 7,    4459,
                                               32,         1u << 16 | 56};
  EXPECT_EQ(with_float_controls(bytes, sizeof module, true, false), expected);
}

TEST(FloatControls, LeaveADamagedModuleAsItIs) {
  const std::uint32_t module[] = {0x07230203, 0x00010500, 0, 10, 0, 9u << 16 | 17};
  const auto* bytes = reinterpret_cast<const unsigned char*>(module);
  EXPECT_EQ(with_float_controls(bytes, sizeof module, true, true), std::vector<std::uint32_t>(std::begin(module), std::end(module)));
}

}  // namespace
