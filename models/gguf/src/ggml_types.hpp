// The tensor types that a GGUF file may name, with their block sizes, and which of them Quern reads.
#pragma once

#include "quern/quern_dtypes.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::gguf {

struct GgmlType {
  std::uint32_t id;
  std::string_view name;
  std::uint32_t block_elements;  ///< 0 for an id that was given up and has no meaning now
  std::uint32_t block_bytes;
  quern_dtype dtype;  ///< QUERN_DTYPE_NONE: known, and not read
};

/// Null for an id that is not in the table.
const GgmlType* find_ggml_type(std::uint32_t id) noexcept;

/// The row of a dtype that is read. A block format that GGUF files do not have has one with the id no_ggml_type. Null for any other dtype.
const GgmlType* find_type_of(quern_dtype dtype) noexcept;

/// "F32, F16, Q4_0, ...": the names of the types that are read.
std::string supported_ggml_types();

}  // namespace quern::gguf
