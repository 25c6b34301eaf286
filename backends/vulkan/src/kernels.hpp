// The kernels that were built in: one SPIR-V module each, sorted by name. Made by the build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern::vulkan {

/// Sets of kernels, each with those below it: Vulkan 1.2's, integer dot products, cooperative matrices.
enum class Tier { baseline, dot, matrices };

struct Kernel {
  std::string_view name;  // "rms_norm"
  const unsigned char* data;
  std::size_t bytes;
};

/// A list that lives as long as the library.
extern const Kernel* const built_in_kernels;
extern const std::size_t built_in_kernel_count;

/// Null where there is none of this name.
const Kernel* find_kernel(std::string_view name) noexcept;
/// The highest tier whose kernels were built in.
Tier built_tier() noexcept;
/// Of all modules: what a cache of pipelines is kept under.
std::uint64_t kernels_hash() noexcept;

}  // namespace quern::vulkan
