// A host one minor later than the headers of this tree, in its smallest form: asks a plugin, expects to be answered with the plugin's own
// minor and without the function that was appended, makes a handle and opens its first device. Built by compatibility_test.py.
//
//   later_host PLUGIN MINOR      exit 0: as expected; 1: says what is not
#include "quern/quern_plugin.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace sdk = quern::sdk;

namespace {

std::uint64_t no_option(void*, const char*, char*, std::uint64_t) { return UINT64_MAX; }

int fail(const char* what) {
  std::printf("%s\n", what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return fail("usage: later_host PLUGIN MINOR");
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  const auto query = reinterpret_cast<quern_plugin_query_fn>(dlsym(library, QUERN_PLUGIN_QUERY_NAME));
  if (query == nullptr) return fail("it has no entry");
  auto ask = sdk::made<quern_query>();
  ask.abi_minor = QUERN_ABI_MINOR;
  ask.abi_minor_min = QUERN_ABI_MINOR > QUERN_ABI_MINOR_SUPPORTED ? QUERN_ABI_MINOR - QUERN_ABI_MINOR_SUPPORTED : 0;
  auto api = sdk::made<quern_plugin_api>();
  if (query(&ask, &api, nullptr) != QUERN_OK) return fail("it refuses a later host");
  const auto minor = static_cast<std::uint32_t>(std::atoi(arguments[2]));
  if (api.abi_minor != minor) return fail("it does not answer with its own minor");
  if (minor < QUERN_ABI_MINOR && api.header.struct_size >= sizeof api) return fail("it says that it filled a function that it cannot know");
  auto host = sdk::made<quern_host>();
  host.abi_minor = api.abi_minor;
  host.option = no_option;
  host.thread_count = 1;
  quern_plugin* plugin = nullptr;
  if (api.create(&host, &plugin, nullptr) != QUERN_OK) return fail("it cannot be created");
  std::uint32_t devices = 0;
  quern_device* device = nullptr;
  auto info = sdk::made<quern_device_info>();
  if (api.device_count(plugin, &devices, nullptr) != QUERN_OK || devices == 0) return fail("it has no device");
  if (api.device_info(plugin, 0, &info, nullptr) != QUERN_OK) return fail("it does not describe its device");
  if (api.device_open(plugin, 0, &device, nullptr) != QUERN_OK) return fail("its device cannot be opened");
  if (api.device_close(device, nullptr) != QUERN_OK) return fail("its device cannot be closed");
  api.destroy(plugin);
  std::printf("minor %u under %u\n", api.abi_minor, QUERN_ABI_MINOR);
  return 0;
}
