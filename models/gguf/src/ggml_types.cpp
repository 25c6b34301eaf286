#include "ggml_types.hpp"

#include "quern/models/gguf.hpp"
#include "quern/quern_formats.h"

#include <algorithm>

namespace quern::gguf {
namespace {

/// A type that Quern reads: its block is the format's.
constexpr GgmlType of_format(std::uint32_t id, std::string_view name, quern_dtype dtype) {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return {id, name, format.block_elements, format.block_bytes, dtype};
  throw "no such format";  // the table below does not compile then
}

constexpr GgmlType ggml_types[] = {
    {0, "F32", 1, 4, QUERN_F32},
    {1, "F16", 1, 2, QUERN_F16},
    of_format(2, "Q4_0", QUERN_Q4_0),
    of_format(3, "Q4_1", QUERN_Q4_1),
    {4, "Q4_2 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {5, "Q4_3 (given up)", 0, 0, QUERN_DTYPE_NONE},
    of_format(6, "Q5_0", QUERN_Q5_0),
    of_format(7, "Q5_1", QUERN_Q5_1),
    of_format(8, "Q8_0", QUERN_Q8_0),
    {9, "Q8_1", 32, 36, QUERN_DTYPE_NONE},
    {10, "Q2_K", 256, 84, QUERN_DTYPE_NONE},
    {11, "Q3_K", 256, 110, QUERN_DTYPE_NONE},
    of_format(12, "Q4_K", QUERN_Q4_K),
    of_format(13, "Q5_K", QUERN_Q5_K),
    of_format(14, "Q6_K", QUERN_Q6_K),
    {15, "Q8_K", 256, 292, QUERN_DTYPE_NONE},
    {16, "IQ2_XXS", 256, 66, QUERN_DTYPE_NONE},
    {17, "IQ2_XS", 256, 74, QUERN_DTYPE_NONE},
    {18, "IQ3_XXS", 256, 98, QUERN_DTYPE_NONE},
    {19, "IQ1_S", 256, 50, QUERN_DTYPE_NONE},
    {20, "IQ4_NL", 32, 18, QUERN_DTYPE_NONE},
    {21, "IQ3_S", 256, 110, QUERN_DTYPE_NONE},
    {22, "IQ2_S", 256, 82, QUERN_DTYPE_NONE},
    {23, "IQ4_XS", 256, 136, QUERN_DTYPE_NONE},
    {24, "I8", 1, 1, QUERN_DTYPE_NONE},
    {25, "I16", 1, 2, QUERN_DTYPE_NONE},
    {26, "I32", 1, 4, QUERN_I32},
    {27, "I64", 1, 8, QUERN_I64},
    {28, "F64", 1, 8, QUERN_DTYPE_NONE},
    {29, "IQ1_M", 256, 56, QUERN_DTYPE_NONE},
    {30, "BF16", 1, 2, QUERN_BF16},
    {31, "Q4_0_4_4 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {32, "Q4_0_4_8 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {33, "Q4_0_8_8 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {34, "TQ1_0", 256, 54, QUERN_DTYPE_NONE},
    {35, "TQ2_0", 256, 66, QUERN_DTYPE_NONE},
    {36, "IQ4_NL_4_4 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {37, "IQ4_NL_4_8 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {38, "IQ4_NL_8_8 (given up)", 0, 0, QUERN_DTYPE_NONE},
    {39, "MXFP4", 32, 17, QUERN_DTYPE_NONE},
    {40, "NVFP4", 64, 36, QUERN_DTYPE_NONE},
};

// find_ggml_type indexes the table by id.
constexpr bool ids_are_positions() {
  for (std::uint32_t i = 0; i < std::size(ggml_types); ++i) {
    if (ggml_types[i].id != i) return false;
    if (ggml_types[i].dtype != QUERN_DTYPE_NONE && ggml_types[i].block_elements == 0) return false;
  }
  return true;
}
static_assert(ids_are_positions());

// Block formats by their places in quern_formats, for those that the table above does not have.
#define QUERN_GGUF_FORMAT(FORMAT, format, with) of_format(no_ggml_type, #FORMAT, QUERN_##FORMAT),
constexpr GgmlType other_types[] = {QUERN_EACH_FORMAT(QUERN_GGUF_FORMAT, )};
#undef QUERN_GGUF_FORMAT

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t id) noexcept { return id < std::size(ggml_types) ? &ggml_types[id] : nullptr; }

const GgmlType* find_type_of(quern_dtype dtype) noexcept {
  if (dtype == QUERN_DTYPE_NONE) return nullptr;
  for (const GgmlType& type : ggml_types)
    if (type.dtype == dtype) return &type;
  for (const GgmlType& type : other_types)
    if (type.dtype == dtype) return &type;
  return nullptr;
}

std::string supported_ggml_types() {
  std::string names;
  for (const GgmlType& type : ggml_types) {
    if (type.dtype == QUERN_DTYPE_NONE) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

std::string_view type_name(quern_dtype dtype) noexcept {
  const GgmlType* type = find_type_of(dtype);
  return type == nullptr ? std::string_view() : type->name;
}

bool has_ggml_type(quern_dtype dtype) noexcept {
  const GgmlType* type = find_type_of(dtype);
  return type != nullptr && type->id != no_ggml_type;
}

}  // namespace quern::gguf
