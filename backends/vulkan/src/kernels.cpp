// See kernels.hpp.
#include "kernels.hpp"

#include <algorithm>

namespace quern::vulkan {

const Kernel* find_kernel(std::string_view name) noexcept {
  const Kernel* const end = built_in_kernels + built_in_kernel_count;
  const Kernel* at = std::lower_bound(built_in_kernels, end, name, [](const Kernel& k, std::string_view n) { return k.name < n; });
  return at != end && at->name == name ? at : nullptr;
}

Tier built_tier() noexcept { return find_kernel("gemm") != nullptr ? Tier::matrices : Tier::dot; }

std::uint64_t kernels_hash() noexcept {
  static const std::uint64_t hash = [] {
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (std::size_t k = 0; k < built_in_kernel_count; ++k)
      for (std::size_t i = 0; i < built_in_kernels[k].bytes; ++i) h = (h ^ built_in_kernels[k].data[i]) * 0x100000001b3ull;
    return h;
  }();
  return hash;
}

}  // namespace quern::vulkan
