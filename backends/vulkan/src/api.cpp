// See api.hpp.
#include "api.hpp"

#include <dlfcn.h>

namespace quern::vulkan {

void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  quern_status code = QUERN_INTERNAL;
  std::string text;
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: code = QUERN_HOST_OUT_OF_MEMORY, text = "the driver ran out of host memory"; break;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: code = QUERN_OUT_OF_MEMORY, text = "the driver ran out of device memory"; break;
    case VK_ERROR_DEVICE_LOST: code = QUERN_DEVICE_LOST, text = "the device is lost; open it again"; break;
    case VK_ERROR_TOO_MANY_OBJECTS: code = QUERN_OUT_OF_MEMORY, text = "the driver allows no more memory objects"; break;
    case VK_ERROR_EXTENSION_NOT_PRESENT: text = "the driver lacks an extension that it said to have"; break;
    case VK_ERROR_FEATURE_NOT_PRESENT: text = "the driver lacks a feature that it said to have"; break;
    case VK_ERROR_INCOMPATIBLE_DRIVER: code = QUERN_DRIVER_MISSING, text = "no Vulkan driver fits the loader"; break;
    default: text = "the driver failed";
  }
  Failure failure(code, concat(what, ": ", text, " (VkResult ", static_cast<int>(result), ")"));
  failure.domain = QUERN_DOMAIN_VULKAN;
  failure.native_code = result;
  if (result == VK_ERROR_DEVICE_LOST) failure.flags = QUERN_ERROR_STICKY | QUERN_ERROR_DEVICE_LOST;
  throw failure;
}

std::shared_ptr<const Api> Api::open(const char* library) {
  std::shared_ptr<Api> api(new Api);
  api->library_ = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (api->library_ == nullptr) {
    const char* reason = dlerror();
    throw Failure(QUERN_DRIVER_MISSING, concat("needs the Vulkan loader ", library, ", which cannot be opened",
                                               reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason));
  }
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(api->library_, "vkGetInstanceProcAddr"));
  if (get == nullptr) throw Failure(QUERN_DEPENDENCY_MISSING, concat(library, " has no vkGetInstanceProcAddr; it is no Vulkan loader"));
  const auto version = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(VK_NULL_HANDLE, "vkEnumerateInstanceVersion"));
  std::uint32_t have = VK_API_VERSION_1_0;
  if (version != nullptr) version(&have);
  if (have < VK_API_VERSION_1_2)
    throw Failure(QUERN_DRIVER_TOO_OLD, concat("the Vulkan loader speaks 1.", VK_API_VERSION_MINOR(have), ", 1.2 is needed"));
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = application.pEngineName = "quern";
  application.apiVersion = std::min(have, VK_API_VERSION_1_3);
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  const VkResult result = create(&info, nullptr, &api->instance_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
    throw Failure(
        QUERN_DRIVER_MISSING,
        "the Vulkan loader finds no usable driver: no manifest below vulkan/icd.d, or those that there are name libraries that cannot be opened");
  // The loader of Debian 12 (1.3.239) answers a manifest that is no JSON with OUT_OF_HOST_MEMORY.
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_INITIALIZATION_FAILED)
    throw Failure(QUERN_DRIVER_MISSING, concat("the Vulkan loader can make no instance (VkResult ", static_cast<int>(result),
                                               "): a manifest below vulkan/icd.d is damaged, or a driver cannot start"));
  check(result, "making a Vulkan instance");
#define X(name) \
  api->name = reinterpret_cast<PFN_vk##name>(get(api->instance_, "vk" #name)); \
  if (api->name == nullptr) throw Failure(QUERN_DEPENDENCY_MISSING, "the Vulkan loader has no vk" #name);
  QUERN_VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
  api->GetPhysicalDeviceCooperativeMatrixPropertiesKHR = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      get(api->instance_, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  return api;
}

Api::~Api() {
  if (instance_ != VK_NULL_HANDLE && DestroyInstance != nullptr) DestroyInstance(instance_, nullptr);
  // The library stays: drivers leave threads and thread-local destructors behind.
}

Calls::Calls(const Api& api, VkDevice device) {
#define X(name) \
  name = reinterpret_cast<PFN_vk##name>(api.GetDeviceProcAddr(device, "vk" #name)); \
  if (name == nullptr) throw Failure(QUERN_DEPENDENCY_MISSING, "the Vulkan driver has no vk" #name);
  QUERN_VULKAN_DEVICE_FUNCTIONS(X)
#undef X
}

}  // namespace quern::vulkan
