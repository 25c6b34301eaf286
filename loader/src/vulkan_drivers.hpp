// The Vulkan drivers that manifests announce to the Vulkan loader, and what is wrong with them.
#pragma once

#include "quern/loader/machine.hpp"
#include "quern/loader/settings.hpp"

#include <vector>

namespace quern::loader {

/// In the order in which the Vulkan loader reads them: VK_DRIVER_FILES or VK_ICD_FILENAMES alone, else VK_ADD_DRIVER_FILES and the folders
/// of configuration and data.
std::vector<VulkanDriver> list_vulkan_drivers(const Settings& settings);

}  // namespace quern::loader
