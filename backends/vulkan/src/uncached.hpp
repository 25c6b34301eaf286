// Reading device memory that is mapped and that the processor does not cache.
#pragma once

#include <cstddef>

namespace quern::vulkan {

/// A usual load of such memory waits for the bus each time; here lines of 64 bytes are asked for, several at once. `from` lies in memory that can
/// be read from the line it is in to the line its last byte is in.
void read_uncached(void* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace quern::vulkan
