// A libvulkan.so.1 for tests. It hands calls on to the machine's own loader, COUNTED_VULKAN.
//
// Once the environment has QUERN_TEST_OPENED, dispatches are counted and not recorded. Each command buffer that is submitted then is a line of
// the file LAUNCH_LOG, "graph N dispatches". So a step is counted in the time that recording takes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <vulkan/vulkan_core.h>

namespace {

PFN_vkGetInstanceProcAddr real_instance = nullptr;
PFN_vkGetDeviceProcAddr real_device = nullptr;
PFN_vkBeginCommandBuffer real_begin = nullptr;
PFN_vkCmdDispatch real_dispatch = nullptr;
PFN_vkCmdDispatchIndirect real_indirect = nullptr;
PFN_vkQueueSubmit real_submit = nullptr;

std::mutex lock;
std::map<VkCommandBuffer, int> dispatches;

bool counts() { return std::getenv("QUERN_TEST_OPENED") != nullptr; }

VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo* info) {
  const std::scoped_lock held(lock);
  dispatches[commands] = 0;
  return real_begin(commands, info);
}
VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  if (!counts()) return real_dispatch(commands, x, y, z);
  const std::scoped_lock held(lock);
  ++dispatches[commands];
}
VKAPI_ATTR void VKAPI_CALL indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
  if (!counts()) return real_indirect(commands, buffer, offset);
  const std::scoped_lock held(lock);
  ++dispatches[commands];
}
VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  static std::FILE* const log = std::getenv("LAUNCH_LOG") == nullptr ? nullptr : std::fopen(std::getenv("LAUNCH_LOG"), "ae");
  if (log != nullptr && counts()) {
    const std::scoped_lock held(lock);
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t c = 0; c < infos[i].commandBufferCount; ++c)
        std::fprintf(log, "graph %d dispatches\n", dispatches[infos[i].pCommandBuffers[c]]);
    std::fflush(log);
  }
  return real_submit(queue, count, infos, fence);
}

/// Keeps the driver's function and gives ours.
template <class Function>
PFN_vkVoidFunction in_place_of(PFN_vkVoidFunction found, Function& real, Function ours) {
  real = reinterpret_cast<Function>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(ours);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL of_device(VkDevice device, const char* name) {
  const PFN_vkVoidFunction found = real_device(device, name);
  if (std::strcmp(name, "vkBeginCommandBuffer") == 0) return in_place_of(found, real_begin, PFN_vkBeginCommandBuffer{begin});
  if (std::strcmp(name, "vkCmdDispatch") == 0) return in_place_of(found, real_dispatch, PFN_vkCmdDispatch{dispatch});
  if (std::strcmp(name, "vkCmdDispatchIndirect") == 0) return in_place_of(found, real_indirect, PFN_vkCmdDispatchIndirect{indirect});
  if (std::strcmp(name, "vkQueueSubmit") == 0) return in_place_of(found, real_submit, PFN_vkQueueSubmit{submit});
  return found;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                                                                                 const char* name) {
  if (real_instance == nullptr) {
    const char* const path = std::getenv("COUNTED_VULKAN");
    void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    real_instance = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  }
  const PFN_vkVoidFunction found = real_instance(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
  return in_place_of(found, real_device, PFN_vkGetDeviceProcAddr{of_device});
}
