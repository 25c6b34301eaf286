// The rounds of SHA-256 over whole blocks of 64 bytes, one file an instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quern {

using Sha256State = std::array<std::uint32_t, 8>;

extern const std::uint32_t sha256_constants[64];

void sha256_blocks_portable(Sha256State& state, const std::byte* bytes, std::size_t count) noexcept;

/// Whether this processor has the instructions that sha256_blocks_x86 uses; false on other architectures.
bool sha256_instructions() noexcept;
void sha256_blocks_x86(Sha256State& state, const std::byte* bytes, std::size_t count) noexcept;

}  // namespace quern
