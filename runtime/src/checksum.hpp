// A checksum as fast as memory, for files of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quern::runtime {

/// 64 bits of `bytes` and their number. Any change within one aligned word of 8 bytes changes it; others go unseen with 2^-64. Against
/// mistakes of disks and programs, not against forgery. Kept in files: it may not change without their version.
std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;

}  // namespace quern::runtime
