// See mirrors.hpp.
#include "mirrors.hpp"

#include <algorithm>

namespace quern::cuda {

Mirrors::Mirrors(const Driver& driver) : driver_(driver) {
  list_.reserve(mirror_count);
  void* memory = nullptr;
  driver_.check(driver_.cuMemHostAlloc(&memory, std::size_t{mirror_bytes} * mirror_count, constant::host_mapped),
                "taking pinned host memory");
  memory_ = static_cast<std::byte*>(memory);
  if (const Result mapped = driver_.cuMemHostGetDevicePointer_v2(&device_, memory, 0); mapped != constant::success) {
    driver_.cuMemFreeHost(memory);
    driver_.check(mapped, "mapping host memory");
  }
}

Mirrors::~Mirrors() { driver_.cuMemFreeHost(memory_); }

Mirrors::Mirror* Mirrors::add(Address from, std::uint32_t bytes) {
  if (bytes > mirror_bytes || bytes % 4 != 0 || from % 4 != 0) return nullptr;
  for (std::uint32_t i = 0; i < mirror_count; ++i) {
    std::byte* host = memory_ + std::size_t{i} * mirror_bytes;
    if (std::ranges::any_of(list_, [&](const auto& m) { return m->host == host; })) continue;
    list_.push_back(std::make_unique<Mirror>(Mirror{from, bytes, host, device_ + Address{i} * mirror_bytes}));
    return list_.back().get();
  }
  return nullptr;
}

void Mirrors::remove(Mirror* mirror) noexcept {
  std::erase_if(list_, [&](const auto& m) { return m.get() == mirror; });
}

const void* Mirrors::find(Address from, std::uint64_t bytes, std::uint64_t lane, std::uint64_t point) const noexcept {
  for (const auto& m : list_)
    if (m->lane == lane && m->point == point && from >= m->from && from + bytes <= m->from + m->bytes)
      return static_cast<const std::byte*>(m->host) + (from - m->from);
  return nullptr;
}

void Mirrors::forget(Address from, std::uint64_t bytes) noexcept {
  for (const auto& m : list_)
    if (from < m->from + m->bytes && m->from < from + bytes) m->lane = 0;
}

}  // namespace quern::cuda
