// What a cubin says of a kernel: so much a driver needs to refuse a launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string>
#include <string_view>

struct KernelLimits {
  std::uint64_t fixed_shared = 0;  // bytes of shared memory that it has whatever it is given
  std::uint64_t most_threads = 1024;
};

/// Of a kernel of an image; what a card allows if the image is no cubin.
inline KernelLimits limits_of(const char* image, const std::string& kernel) {
  constexpr std::uint64_t reserved = 1024;  // sm_90 counts what the system takes of a block's shared memory
  constexpr unsigned with_payload = 4, max_threads = 5;
  KernelLimits limits;
  if (image == nullptr || std::memcmp(image, ELFMAG, SELFMAG) != 0) return limits;
  const auto at = [&]<class T>(std::uint64_t offset, T) {
    T value;
    std::memcpy(&value, image + offset, sizeof value);
    return value;
  };
  const auto head = at(0, Elf64_Ehdr{});
  const auto section = [&](unsigned i) { return at(head.e_shoff + std::uint64_t{i} * head.e_shentsize, Elf64_Shdr{}); };
  const Elf64_Shdr names = section(head.e_shstrndx);
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const std::string_view name = image + names.sh_offset + s.sh_name;
    if (name == ".nv.shared." + kernel) limits.fixed_shared = s.sh_size - std::min(s.sh_size, reserved);
    if (name != ".nv.info." + kernel) continue;
    for (std::uint64_t offset = s.sh_offset; offset + 4 <= s.sh_offset + s.sh_size;) {
      const auto format = at(offset, std::uint8_t{}), attribute = at(offset + 1, std::uint8_t{});
      const auto size = at(offset + 2, std::uint16_t{});
      if (format == with_payload && attribute == max_threads) limits.most_threads = at(offset + 4, std::uint32_t{});
      offset += 4 + (format == with_payload ? size : 0);
    }
  }
  return limits;
}
