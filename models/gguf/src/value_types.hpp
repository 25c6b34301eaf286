// Sizes and kinds of metadata value types.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>

namespace quern::gguf {

constexpr bool is_value_type(std::uint32_t id) noexcept { return id <= 12; }

/// 0 for strings and arrays, whose size is in the file.
constexpr std::uint64_t fixed_size(ValueType type) noexcept {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean: return 1;
    case ValueType::u16:
    case ValueType::i16: return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32: return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64: return 8;
    case ValueType::string:
    case ValueType::array: return 0;
  }
  return 0;
}

/// Element type and count, in front of an array's elements.
constexpr std::uint64_t array_head_bytes = 4 + 8;

constexpr bool is_integer(ValueType type) noexcept { return type <= ValueType::i32 || type == ValueType::u64 || type == ValueType::i64; }

constexpr bool is_float(ValueType type) noexcept { return type == ValueType::f32 || type == ValueType::f64; }

}  // namespace quern::gguf
