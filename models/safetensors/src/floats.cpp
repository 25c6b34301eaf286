#include "quern/models/floats.hpp"

#include "quern/graph/error.hpp"
#include "quern/sdk/host_kernels.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace quern::models {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

float from_bf16(std::uint16_t bits) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t to_bf16(float number) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  if (std::isnan(number)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);  // rounding could make it infinite
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void check_type(quern_dtype dtype) {
  if (float_bytes(dtype) == 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat("numbers of type ", dtype, " were asked for; f32, f16 and bf16 are taken"));
}

}  // namespace

std::size_t float_bytes(quern_dtype dtype) noexcept {
  if (dtype == QUERN_F32) return 4;
  return dtype == QUERN_F16 || dtype == QUERN_BF16 ? 2 : 0;
}

std::vector<float> decode_floats(quern_dtype dtype, std::span<const std::byte> bytes) {
  check_type(dtype);
  std::vector<float> numbers(bytes.size() / float_bytes(dtype));
  decode_floats(dtype, bytes, numbers);
  return numbers;
}

void decode_floats(quern_dtype dtype, std::span<const std::byte> bytes, std::span<float> numbers) {
  check_type(dtype);
  const std::size_t size = float_bytes(dtype);
  if (bytes.size() != numbers.size() * size)
    throw Error(QUERN_INVALID_ARGUMENT, concat(bytes.size(), " bytes are not ", numbers.size(), " whole numbers of ", size, " bytes"));
  if (dtype == QUERN_F32) {
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return;
  }
  const auto each = [&](const auto& number_of) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
      numbers[i] = number_of(bits);
    }
  };
  dtype == QUERN_F16 ? each(sdk::from_f16) : each(from_bf16);
}

std::vector<std::byte> encode_floats(quern_dtype dtype, std::span<const float> numbers) {
  check_type(dtype);
  std::vector<std::byte> bytes(numbers.size() * float_bytes(dtype));
  if (dtype == QUERN_F32) {
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint16_t bits = dtype == QUERN_F16 ? sdk::to_f16(numbers[i]) : to_bf16(numbers[i]);
    const std::uint16_t infinity = dtype == QUERN_F16 ? 0x7c00u : 0x7f80u;
    if ((bits & 0x7fffu) == infinity && std::isfinite(numbers[i]))
      throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", numbers[i], " is beyond the largest of ",
                                                 dtype == QUERN_F16 ? "f16; use bf16 or f32" : "bf16; use f32"));
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof bits);
  }
  return bytes;
}

}  // namespace quern::models
