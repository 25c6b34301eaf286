// What the plugin says on a machine without an NVIDIA driver: it loads, its probe gives a reason with a remedy, and nothing else works.
//
// Skipped where libcuda.so.1 is installed: there the end-to-end tests say more.
#include "quern/quern_plugin.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

namespace {

namespace sdk = quern::sdk;

std::uint64_t no_option(void*, const char*, char*, std::uint64_t) { return UINT64_MAX; }

class NoDriver : public testing::Test {
 protected:
  void SetUp() override {
    if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY); driver != nullptr) GTEST_SKIP() << "a driver is installed here";
    library_ = dlopen(QUERN_CUDA_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    auto* query = reinterpret_cast<quern_plugin_query_fn>(dlsym(library_, QUERN_PLUGIN_QUERY_NAME));
    ASSERT_NE(query, nullptr);
    quern_query ask = sdk::made<quern_query>();
    ask.header.struct_type = QUERN_TYPE_QUERY;
    api_ = sdk::made<quern_plugin_api>();
    ASSERT_EQ(query(&ask, &api_, nullptr), QUERN_OK);
    host_ = sdk::made<quern_host>();
    host_.option = no_option;
    host_.thread_count = 1;
    ASSERT_EQ(api_.create(&host_, &plugin_, nullptr), QUERN_OK);
  }
  void TearDown() override {
    if (plugin_ != nullptr) api_.destroy(plugin_);
  }

  void* library_ = nullptr;
  quern_plugin_api api_{};
  quern_host host_{};
  quern_plugin* plugin_ = nullptr;
};

TEST_F(NoDriver, TheProbeNamesTheLibraryAndARemedy) {
  quern_reason reason = sdk::made<quern_reason>();
  quern_probe_report report = sdk::made<quern_probe_report>();
  report.reasons = &reason;
  report.reason_capacity = 1;
  ASSERT_EQ(api_.probe(plugin_, &report, nullptr), QUERN_OK);
  EXPECT_EQ(report.usable, 0u);
  ASSERT_EQ(report.reason_count, 1u);
  EXPECT_EQ(reason.code, QUERN_DRIVER_MISSING);
  EXPECT_EQ(sdk::view(reason.missing), "libcuda.so.1");
  EXPECT_NE(sdk::view(reason.text).find("libcuda.so.1"), std::string_view::npos);
  EXPECT_NE(sdk::view(reason.remedy).find("install the NVIDIA driver"), std::string_view::npos);
}

std::uint64_t forced_kernel(void*, const char* key, char* value, std::uint64_t capacity) {
  constexpr std::string_view word = "turbo";
  if (std::string_view(key) != "force_kernel") return UINT64_MAX;
  sdk::copy_text(word, value, capacity);
  return word.size();
}

TEST_F(NoDriver, AForcedKernelThatThereIsNotIsRefused) {
  quern_host host = host_;
  host.option = forced_kernel;
  quern_plugin* plugin = nullptr;
  EXPECT_EQ(api_.create(&host, &plugin, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(plugin, nullptr);
}

TEST_F(NoDriver, AValueOfTheOptionMemoryThatNoPluginKnowsIsRefused) {
  quern_host host = host_;
  host.option = [](void* context, const char* key, char* value, std::uint64_t capacity) -> std::uint64_t {
    if (std::string_view(key) != "memory") return UINT64_MAX;
    const std::string_view memory = static_cast<const char*>(context);
    sdk::copy_text(memory, value, capacity);
    return memory.size();
  };
  for (const std::string known : {"", "plain", "staged"}) {  // staged: Vulkan's
    host.context = const_cast<char*>(known.c_str());
    quern_plugin* plugin = nullptr;
    EXPECT_EQ(api_.create(&host, &plugin, nullptr), QUERN_OK) << known;
    if (plugin != nullptr) api_.destroy(plugin);
  }
  std::string unknown = "plan";
  host.context = unknown.data();
  char text[512] = {};
  quern_error error = sdk::made<quern_error>();
  error.text = text;
  error.text_capacity = sizeof text - 1;
  quern_plugin* plugin = nullptr;
  EXPECT_EQ(api_.create(&host, &plugin, &error), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(plugin, nullptr);
  for (const char* told : {"'plan'", "plain", "staged"}) EXPECT_NE(std::string_view(text).find(told), std::string_view::npos) << text;
}

TEST_F(NoDriver, DevicesAreRefusedWithTheSameReason) {
  std::uint32_t count = 7;
  EXPECT_EQ(api_.device_count(plugin_, &count, nullptr), QUERN_DRIVER_MISSING);
  EXPECT_EQ(count, 0u);
  quern_device* device = nullptr;
  EXPECT_EQ(api_.device_open(plugin_, 0, &device, nullptr), QUERN_DRIVER_MISSING);
  EXPECT_EQ(device, nullptr);
}

}  // namespace
