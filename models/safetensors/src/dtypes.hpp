// Types by name, and sizes that cannot wrap.
#pragma once

#include "quern/models/safetensors.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace quern::safetensors {

/// More than any file holds, and small enough that bits of so many elements do not wrap.
constexpr std::uint64_t most_elements = std::uint64_t{1} << 56;

std::optional<Dtype> find_dtype(std::string_view name) noexcept;

/// Nothing above most_elements, even where another size is 0.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) noexcept;

/// Nothing above most_elements, or where the elements (of fewer than 8 bits) do not fill whole bytes.
std::optional<std::uint64_t> byte_count(Dtype dtype, std::span<const std::uint64_t> shape) noexcept;

}  // namespace quern::safetensors
