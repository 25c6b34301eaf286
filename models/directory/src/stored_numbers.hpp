// Scales where they lie: decoded one by one, by the thread that needs them.
#pragma once

#include "quern/models/safetensors.hpp"
#include "quern/sdk/host_kernels.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace quern::directory {

/// Numbers of f32, f16, bf16 or E8M0; the bytes have to outlive it.
class StoredNumbers {
 public:
  StoredNumbers(safetensors::Dtype dtype, std::span<const std::byte> bytes) noexcept : dtype_(dtype), bytes_(bytes) {}

  float operator[](std::uint64_t i) const noexcept {
    switch (dtype_) {
      case safetensors::Dtype::f16: return sdk::from_f16(bits<std::uint16_t>(i));
      case safetensors::Dtype::bf16: return std::bit_cast<float>(std::uint32_t{bits<std::uint16_t>(i)} << 16);
      case safetensors::Dtype::f8_e8m0: {
        const int exponent = bits<std::uint8_t>(i);
        return exponent == 255 ? NAN : std::ldexp(1.0f, exponent - 127);
      }
      default: return bits<float>(i);
    }
  }

 private:
  template <typename Bits>
  Bits bits(std::uint64_t i) const noexcept {
    Bits found;
    std::memcpy(&found, bytes_.data() + i * sizeof found, sizeof found);
    return found;
  }

  safetensors::Dtype dtype_;
  std::span<const std::byte> bytes_;
};

}  // namespace quern::directory
