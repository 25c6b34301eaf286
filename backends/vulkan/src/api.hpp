// The functions of libvulkan, opened at run time: one line each.
//
//   Loader  the library and what needs no instance
//   Api     an instance and its functions
//   Calls   the functions of one logical device
#pragma once

#include "cooperative_matrix.hpp"
#include "error.hpp"

#include <memory>
#include <vector>

namespace quern::vulkan {

// A list, which clang-format reads as calls.
// clang-format off
#define QUERN_VULKAN_INSTANCE_FUNCTIONS(X)                                                                                     \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2)                \
  X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties)                \
  X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)

#define QUERN_VULKAN_DEVICE_FUNCTIONS(X)                                                                                       \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)         \
  X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress) X(CreateShaderModule)             \
  X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateComputePipelines) X(DestroyPipeline)         \
  X(CreatePipelineCache) X(GetPipelineCacheData) X(DestroyPipelineCache) X(MergePipelineCaches) X(CreateCommandPool) X(DestroyCommandPool)            \
  X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline)                 \
  X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect) X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer)            \
  X(QueueSubmit) X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) X(GetSemaphoreCounterValue)
// clang-format on

/// Throws what a call that did not succeed means: out of memory, device lost, or the number.
void check(VkResult result, const char* what);

class Api {
 public:
  /// Opens the loader's library and makes an instance. Throws Failure(DRIVER_MISSING, DRIVER_TOO_OLD, DEPENDENCY_MISSING) with what is missing.
  static std::shared_ptr<const Api> open(const char* library);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  VkInstance instance() const noexcept { return instance_; }
#define X(name) PFN_vk##name name = nullptr;
  QUERN_VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
  /// Null where the loader knows no cooperative matrices.
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR GetPhysicalDeviceCooperativeMatrixPropertiesKHR = nullptr;

 private:
  Api() = default;
  void* library_ = nullptr;
  VkInstance instance_ = VK_NULL_HANDLE;
};

struct Calls {
  Calls(const Api& api, VkDevice device);
#define X(name) PFN_vk##name name = nullptr;
  QUERN_VULKAN_DEVICE_FUNCTIONS(X)
#undef X
};

}  // namespace quern::vulkan
