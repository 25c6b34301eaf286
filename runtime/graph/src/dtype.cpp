// Element types and block formats: names, sizes, hashes.
#include "checked.hpp"

#include "quern/graph/graph.hpp"
#include "quern/quern_formats.h"

#include <array>

namespace quern::graph {
namespace {

struct Plain {
  quern_dtype id;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Plain, 7> plain_types{{{QUERN_F32, "f32", 4},
                                            {QUERN_F16, "f16", 2},
                                            {QUERN_BF16, "bf16", 2},
                                            {QUERN_I32, "i32", 4},
                                            {QUERN_I64, "i64", 8},
                                            {QUERN_U32, "u32", 4},
                                            {QUERN_U8, "u8", 1}}};

const Plain* find_plain(quern_dtype dtype) {
  for (const Plain& plain : plain_types)
    if (plain.id == dtype) return &plain;
  return nullptr;
}

const quern_format* find_format(quern_dtype dtype) {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return &format;
  return nullptr;
}

}  // namespace

BlockSize block_size(quern_dtype dtype) {
  if (const Plain* plain = find_plain(dtype)) return {1, plain->bytes};
  if (const quern_format* format = find_format(dtype)) return {format->block_elements, format->block_bytes};
  throw Error(QUERN_INVALID_ARGUMENT, concat(dtype_name(dtype), " is not an element type of this version"));
}

bool is_block_format(quern_dtype dtype) { return find_format(dtype) != nullptr; }

std::uint64_t format_hash(quern_dtype dtype) {
  const quern_format* format = find_format(dtype);
  return format ? format->hash : 0;
}

std::string dtype_name(quern_dtype dtype) {
  if (const Plain* plain = find_plain(dtype)) return std::string(plain->name);
  if (const quern_format* format = find_format(dtype)) return std::string(format->name.data, format->name.size);
  return concat("dtype ", dtype);
}

std::optional<quern_dtype> dtype_from_name(std::string_view name) {
  for (const Plain& plain : plain_types)
    if (plain.name == name) return plain.id;
  for (const quern_format& format : quern_formats)
    if (std::string_view(format.name.data, format.name.size) == name) return format.id;
  return std::nullopt;
}

std::uint64_t byte_size(quern_dtype dtype, const Shape& shape) {
  const BlockSize block = block_size(dtype);
  // A dimension of 0 counts as 1 towards the limit, so that strides never overflow either.
  std::int64_t total = block.bytes;
  bool overflow = false;
  bool empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t size = shape[i].size;
    if (size < 0) throw Error(QUERN_INVALID_ARGUMENT, concat("the shape ", to_string(shape), " has a negative dimension"));
    if (i + 1 == shape.size() && size % block.elements != 0)
      throw Error(QUERN_INVALID_ARGUMENT, concat("the last dimension of ", dtype_name(dtype), " ", to_string(shape),
                                                 " is not a multiple of ", block.elements, ", the elements of a block"));
    if (i + 1 == shape.size()) size /= block.elements;
    empty |= size == 0;
    overflow |= multiply_overflows(total, size > 0 ? size : 1, total);
  }
  if (overflow) throw Error(QUERN_INVALID_ARGUMENT, concat(dtype_name(dtype), " ", to_string(shape), " has more than 2^63 - 1 bytes"));
  if (shape.empty() && block.elements != 1)
    throw Error(QUERN_INVALID_ARGUMENT, concat("a scalar cannot be ", dtype_name(dtype), ", a block format"));
  return empty ? 0 : static_cast<std::uint64_t>(total);
}

}  // namespace quern::graph
