// Pages of mapped files, asked for many at a time.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace quern::runtime {

/// Makes pages resident with one call; where the system cannot, touching them does.
inline void make_resident([[maybe_unused]] std::span<const std::byte> bytes) noexcept {
#if defined(MADV_POPULATE_READ)
  constexpr std::uintptr_t page = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
#endif
}

}  // namespace quern::runtime
