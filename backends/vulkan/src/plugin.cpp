// The plugin's entry: its note and its table, which the SDK's functions fill.
#include "backend.hpp"

#include "quern/sdk/synchronous.hpp"

QUERN_PLUGIN_NOTE("vulkan", QUERN_VULKAN_VERSION, QUERN_DEVICE_DISCRETE, 0, "libvulkan.so.1=libvulkan1");
QUERN_PLUGIN_ENTRY(quern::sdk::Synchronous<quern::vulkan::Backend>::table("vulkan", QUERN_VULKAN_VERSION, QUERN_VULKAN_BUILD))
