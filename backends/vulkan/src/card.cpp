// See card.hpp.
#include "card.hpp"

#include <cstdio>
#include <cstring>

namespace quern::vulkan {
namespace {

struct QuirkRow {
  VkDriverId driver;
  std::uint32_t from, below, quirk;
  const char* source;
};
constexpr QuirkRow quirk_rows[] = {
#define QUERN_VULKAN_QUIRK(driver, from, below, quirk, source) {driver, from, below, quirk, source},
#include "quirks.def"
#undef QUERN_VULKAN_QUIRK
};

struct Properties {
  VkPhysicalDeviceProperties2 base{};
  VkPhysicalDeviceIDProperties id{};
  VkPhysicalDeviceDriverProperties driver{};
  VkPhysicalDeviceSubgroupProperties subgroup{};
  VkPhysicalDeviceFloatControlsProperties floats{};
  VkPhysicalDeviceMaintenance3Properties allocation{};
  VkPhysicalDeviceMaintenance4Properties buffers{};
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{};
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci{};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{};
};

bool has(const std::vector<VkExtensionProperties>& list, const char* name) {
  for (const VkExtensionProperties& e : list)
    if (std::strcmp(e.extensionName, name) == 0) return true;
  return false;
}

void read_properties(const Api& api, VkPhysicalDevice device, const std::vector<VkExtensionProperties>& extensions, Properties& p) {
  void** end = &p.base.pNext;
  p.base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  const auto chain = [&](auto& s, VkStructureType type) {
    s.sType = type;
    *end = &s;
    end = &s.pNext;
  };
  chain(p.id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  chain(p.driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  chain(p.subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  chain(p.floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
  chain(p.allocation, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  if (has(extensions, VK_KHR_MAINTENANCE_4_EXTENSION_NAME)) chain(p.buffers, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
  if (has(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
    chain(p.sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  if (has(extensions, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) chain(p.pci, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  if (has(extensions, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
    chain(p.multiprocessors, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  api.GetPhysicalDeviceProperties2(device, &p.base);
}

/// The largest shape of f16 with f32 sums whose sides are powers of two from 8 to 16, as the kernels' tiles want them.
MatrixShape find_matrices(const Api& api, VkPhysicalDevice device) {
  if (api.GetPhysicalDeviceCooperativeMatrixPropertiesKHR == nullptr) return {};
  std::uint32_t count = 0;
  if (api.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(device, &count, nullptr) != VK_SUCCESS) return {};
  VkCooperativeMatrixPropertiesKHR empty{};
  empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  std::vector<VkCooperativeMatrixPropertiesKHR> list(count, empty);
  if (api.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(device, &count, list.data()) != VK_SUCCESS) return {};
  list.resize(count);
  MatrixShape best;
  const auto fits = [](std::uint32_t side) { return side == 8 || side == 16; };
  for (const VkCooperativeMatrixPropertiesKHR& p : list) {
    if (p.AType != VK_COMPONENT_TYPE_FLOAT16_KHR || p.BType != VK_COMPONENT_TYPE_FLOAT16_KHR || p.CType != VK_COMPONENT_TYPE_FLOAT32_KHR ||
        p.ResultType != VK_COMPONENT_TYPE_FLOAT32_KHR || p.scope != VK_SCOPE_SUBGROUP_KHR)
      continue;
    if (fits(p.MSize) && fits(p.NSize) && fits(p.KSize) && p.MSize * p.NSize * p.KSize > best.m * best.n * best.k)
      best = {p.MSize, p.NSize, p.KSize};
  }
  return best;
}

/// The first thing that the baseline needs and the device has not; empty: all is there.
std::string missing_feature(const Api& api, CardFacts& card, const Properties& p, const std::vector<VkExtensionProperties>& extensions) {
  VkPhysicalDeviceShaderIntegerDotProductFeatures dots{};
  dots.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices{};
  matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  if (has(extensions, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) v12.pNext = &dots;
  if (has(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
    matrices.pNext = v12.pNext;
    v12.pNext = &matrices;
  }
  VkPhysicalDeviceVulkan11Features v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v11.pNext = &v12;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &v11;
  api.GetPhysicalDeviceFeatures2(card.handle, &features);
  card.float64 = features.features.shaderFloat64 != 0;
  card.integer_dot = dots.shaderIntegerDotProduct != 0;
  // The kernels know which part of a tile is a subgroup's from its number, so all subgroups have to be of one size.
  if (matrices.cooperativeMatrix != 0 && v12.shaderFloat16 != 0 && v12.vulkanMemoryModel != 0 && v12.vulkanMemoryModelDeviceScope != 0 &&
      card.subgroup_least == card.subgroup)
    card.matrices = find_matrices(api, card.handle);
  const struct {
    VkBool32 there;
    const char* name;
  } needed[] = {{v12.bufferDeviceAddress, "bufferDeviceAddress"},
                {v12.timelineSemaphore, "timelineSemaphore"},
                {v12.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
                {v11.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
                {features.features.shaderInt64, "shaderInt64"}};
  // Chains wait for words in memory (shaders/chain.comp).
  constexpr VkSubgroupFeatureFlags shuffles = VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  card.shuffles = (p.subgroup.supportedOperations & shuffles) == shuffles && card.subgroup_least == card.subgroup && card.subgroup >= 8;
  if (v12.vulkanMemoryModel != 0 && v12.vulkanMemoryModelDeviceScope != 0 && card.integer_dot && card.shuffles)
    card.persistent_groups = (card.quirks & groups_at_once) != 0 ? card.multiprocessors
                             : card.software()                   ? 1
                                                                 : 0;  // one has none to wait for
  for (const auto& feature : needed)
    if (feature.there == 0) return concat("needs the Vulkan feature ", feature.name, ", the driver has it not");
  constexpr VkSubgroupFeatureFlags operations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
  if ((p.subgroup.supportedOperations & operations) != operations || (p.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0)
    return concat("needs arithmetic over subgroups in compute shaders, the driver has the operations ", p.subgroup.supportedOperations);
  const VkPhysicalDeviceLimits& limits = p.base.properties.limits;
  if (limits.maxComputeWorkGroupInvocations < 256)
    return concat("needs workgroups of 256 invocations, the device has ", limits.maxComputeWorkGroupInvocations);
  if (limits.maxComputeSharedMemorySize < 16384)
    return concat("needs 16384 bytes of shared memory, the device has ", limits.maxComputeSharedMemorySize);
  return {};
}

/// The type of buffers: of the largest heap near the device, writable by the processor where that covers the whole heap.
void choose_memory(const Api& api, CardFacts& card) {
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  api.GetPhysicalDeviceMemoryProperties2(card.handle, &properties);
  const VkPhysicalDeviceMemoryProperties& m = properties.memoryProperties;
  constexpr VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  std::uint64_t best = 0, best_staging = 0;
  for (std::uint32_t t = 0; t < m.memoryTypeCount; ++t) {
    const VkMemoryPropertyFlags flags = m.memoryTypes[t].propertyFlags;
    const std::uint64_t size = m.memoryHeaps[m.memoryTypes[t].heapIndex].size;
    if ((flags & VK_MEMORY_PROPERTY_PROTECTED_BIT) != 0) continue;
    const bool writable = (flags & host) == host, readable = writable && (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    if ((flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0) {
      const std::uint64_t score = size * 4 + (writable ? 2 : 0) + (readable ? 1 : 0);
      if (score > best) {
        best = score;
        card.memory_type = t;
        card.heap = m.memoryTypes[t].heapIndex;
        card.memory = size;
        card.mapped = writable;
        card.cached = readable;
      }
    }
    const std::uint64_t staging = writable ? (readable ? 2 : 1) : 0;
    if (staging > best_staging) {
      best_staging = staging;
      card.staging_type = t;
    }
  }
}

std::string version_text(const CardFacts& card) {
  const std::uint32_t v = card.driver_version;
  if (card.driver == VK_DRIVER_ID_NVIDIA_PROPRIETARY) return concat(v >> 22, ".", v >> 14 & 0xffu, ".", v >> 6 & 0xffu);
  return concat(VK_API_VERSION_MAJOR(v), ".", VK_API_VERSION_MINOR(v), ".", VK_API_VERSION_PATCH(v));
}

CardFacts facts_of(const Api& api, VkPhysicalDevice handle) {
  CardFacts card;
  card.handle = handle;
  VkPhysicalDeviceProperties plain{};
  api.GetPhysicalDeviceProperties(handle, &plain);
  card.name = plain.deviceName;
  card.type = plain.deviceType;
  card.vendor = plain.vendorID <= 0xffff ? plain.vendorID : 0;
  card.api_version = plain.apiVersion;
  card.driver_version = plain.driverVersion;
  if (plain.apiVersion < VK_API_VERSION_1_2) {
    card.refusal_code = QUERN_DRIVER_TOO_OLD;
    card.refusal =
        concat("needs Vulkan 1.2, the driver speaks ", VK_API_VERSION_MAJOR(plain.apiVersion), ".", VK_API_VERSION_MINOR(plain.apiVersion));
    return card;
  }
  std::uint32_t count = 0;
  api.EnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  api.EnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data());
  extensions.resize(count);
  Properties p;
  read_properties(api, handle, extensions, p);
  std::memcpy(card.uuid, p.id.deviceUUID, sizeof card.uuid);
  std::memcpy(card.driver_uuid, p.id.driverUUID, sizeof card.driver_uuid);
  card.driver = p.driver.driverID;
  card.driver_name = concat(p.driver.driverName, " ", p.driver.driverInfo[0] != 0 ? std::string(p.driver.driverInfo) : version_text(card));
  if (p.pci.sType != 0 && !card.software()) {
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", p.pci.pciDomain, p.pci.pciBus, p.pci.pciDevice, p.pci.pciFunction);
    card.pci_address = text;
  }
  card.subgroup = p.subgroup.subgroupSize;
  card.subgroup_least = p.sizes.minSubgroupSize != 0 ? std::min(p.sizes.minSubgroupSize, card.subgroup) : card.subgroup;
  card.multiprocessors = p.multiprocessors.shaderSMCount;
  const VkPhysicalDeviceLimits& limits = p.base.properties.limits;
  card.shared_limit = limits.maxComputeSharedMemorySize;
  card.group_limit = limits.maxComputeWorkGroupInvocations;
  std::copy_n(limits.maxComputeWorkGroupCount, 3, card.grid_limit);
  card.max_allocation = p.allocation.maxMemoryAllocationSize;
  card.max_buffer = std::max<std::uint64_t>(card.max_allocation, p.buffers.maxBufferSize);
  card.keeps_denormals = p.floats.shaderDenormPreserveFloat32 != 0;
  card.keeps_specials = p.floats.shaderSignedZeroInfNanPreserveFloat32 != 0;
  card.memory_budget = has(extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  card.architecture = concat("subgroup ", card.subgroup, card.keeps_denormals ? "" : " ftz");
  for (const QuirkRow& row : quirk_rows)
    if (row.driver == card.driver && card.driver_version >= row.from && (row.below == 0 || card.driver_version < row.below))
      card.quirks |= row.quirk;
  card.refusal = missing_feature(api, card, p, extensions);
  choose_memory(api, card);
  std::uint32_t families = 0;
  api.GetPhysicalDeviceQueueFamilyProperties(handle, &families, nullptr);
  std::vector<VkQueueFamilyProperties> list(families);
  api.GetPhysicalDeviceQueueFamilyProperties(handle, &families, list.data());
  bool found = false;
  for (std::uint32_t f = 0; f < families; ++f) {
    if ((list[f].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    const bool compute_only = (list[f].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0;
    if (!found || compute_only) card.family = f;
    found = true;
    if (compute_only) break;
  }
  card.copy_family = transfer_family(list);
  if (!found && card.refusal.empty()) card.refusal = "needs a queue that computes, the device has none";
  if (card.memory == 0 && card.refusal.empty()) card.refusal = "needs memory near the device, the driver offers none";
  if (!card.refusal.empty()) card.refusal_code = QUERN_UNSUPPORTED;
  return card;
}

}  // namespace

std::optional<std::uint32_t> transfer_family(std::span<const VkQueueFamilyProperties> families) {
  constexpr VkQueueFlags taken = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  for (std::uint32_t f = 0; f < families.size(); ++f)
    if ((families[f].queueFlags & VK_QUEUE_TRANSFER_BIT) != 0 && (families[f].queueFlags & ~taken) == 0) return f;
  return std::nullopt;
}

std::vector<CardFacts> list_cards(const Api& api) {
  std::uint32_t count = 0;
  check(api.EnumeratePhysicalDevices(api.instance(), &count, nullptr), "listing Vulkan devices");
  std::vector<VkPhysicalDevice> handles(count);
  const VkResult result = api.EnumeratePhysicalDevices(api.instance(), &count, handles.data());
  if (result != VK_INCOMPLETE) check(result, "listing Vulkan devices");
  handles.resize(count);
  std::vector<CardFacts> cards;
  for (VkPhysicalDevice handle : handles) cards.push_back(facts_of(api, handle));
  return cards;
}

}  // namespace quern::vulkan
