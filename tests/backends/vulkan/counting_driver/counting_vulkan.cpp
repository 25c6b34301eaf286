// A libvulkan.so.1 for tests: it hands everything on to the machine's own loader, COUNTED_VULKAN, but dispatches once a device is open.
//
// From the time that the environment has QUERN_TEST_OPENED, a dispatch is a line of the file LAUNCH_LOG, "launch 0 dispatch", and nothing else: what
// a step asks of the driver is known in the time that it takes to record it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

namespace {

PFN_vkGetInstanceProcAddr real_instance = nullptr;
PFN_vkGetDeviceProcAddr real_device = nullptr;
PFN_vkCmdDispatch real_dispatch = nullptr;
PFN_vkCmdDispatchIndirect real_indirect = nullptr;

bool counts() {
  if (std::getenv("QUERN_TEST_OPENED") == nullptr) return false;
  static std::FILE* const log = std::getenv("LAUNCH_LOG") == nullptr ? nullptr : std::fopen(std::getenv("LAUNCH_LOG"), "ae");
  if (log != nullptr) {
    std::fputs("launch 0 dispatch\n", log);
    std::fflush(log);
  }
  return true;
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  if (!counts()) real_dispatch(commands, x, y, z);
}
VKAPI_ATTR void VKAPI_CALL indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
  if (!counts()) real_indirect(commands, buffer, offset);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name) {
  const PFN_vkVoidFunction found = real_device(device, name);
  if (std::strcmp(name, "vkCmdDispatch") == 0) {
    real_dispatch = reinterpret_cast<PFN_vkCmdDispatch>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(dispatch);
  }
  if (std::strcmp(name, "vkCmdDispatchIndirect") == 0) {
    real_indirect = reinterpret_cast<PFN_vkCmdDispatchIndirect>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(indirect);
  }
  return found;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (real_instance == nullptr) {
    const char* const path = std::getenv("COUNTED_VULKAN");
    void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    real_instance = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  }
  const PFN_vkVoidFunction found = real_instance(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
  real_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(of_device);
}
