// Changes to a SPIR-V module before the driver sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::vulkan {

/// The module with the float controls that are wanted for 32 bits: glslc has no words for them.
std::vector<std::uint32_t> with_float_controls(const unsigned char* module, std::size_t bytes, bool keep_denormals, bool keep_specials);

}  // namespace quern::vulkan
