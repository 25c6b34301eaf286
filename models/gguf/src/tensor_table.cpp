// The tensor section: records, and where their data lies.
#include "ggml_types.hpp"
#include "parse.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace quern::gguf {
namespace {

constexpr std::uint64_t int64_max = INT64_MAX;

/// The table while it is checked; `offset_at` says for each tensor where its offset field lies, for errors.
struct Table {
  std::vector<TensorInfo> tensors;
  std::vector<std::uint64_t> offset_at;
};

std::string read_name(Cursor& cursor) {
  const std::uint64_t at = cursor.at();
  cursor.belong_to({}, {});
  const std::string_view name = cursor.string("tensor name");
  if (name.empty()) throw cursor.error("tensor name", at, "is empty");
  if (name.size() > max_tensor_name)
    throw cursor.error("tensor name", at, concat("has ", name.size(), " bytes; at most ", max_tensor_name, " are read"));
  cursor.belong_to("tensor", name);
  return std::string(name);
}

void read_dims(Cursor& cursor, TensorInfo& info) {
  const std::uint64_t n_dims_at = cursor.at();
  info.n_dims = cursor.read<std::uint32_t>("n_dims");
  if (info.n_dims < 1 || info.n_dims > 4) throw cursor.error("n_dims", n_dims_at, concat("is ", info.n_dims, "; it must be 1 to 4"));
  std::uint64_t product = 1;
  for (std::uint32_t i = 0; i < info.n_dims; ++i) {
    const std::uint64_t at = cursor.at();
    const auto dim = cursor.read<std::uint64_t>("dimension");
    if (dim == 0) throw cursor.error(concat("dimension ", i), at, "is 0");
    if (dim > int64_max / product)
      throw cursor.error(concat("dimension ", i), at,
                         concat("is ", dim, "; with the dimensions before it that is more than 2^63 elements"));
    product *= dim;
    info.dims[i] = dim;
  }
}

void read_type(Cursor& cursor, TensorInfo& info) {
  const std::uint64_t at = cursor.at();
  info.ggml_type = cursor.read<std::uint32_t>("type");
  const GgmlType* type = find_ggml_type(info.ggml_type);
  if (type == nullptr)
    throw cursor.error("type", at, concat("is ", info.ggml_type, ", which is not a known type; supported are ", supported_ggml_types()));
  if (type->dtype == QUERN_DTYPE_NONE)
    throw cursor.error("type", at, concat("is ", type->name, ", which is not supported; supported are ", supported_ggml_types()));
  if (info.dims[0] % type->block_elements != 0)
    throw cursor.error("dimension 0", at,
                       concat("is ", info.dims[0], "; a row of type ", type->name, " must be a multiple of ", type->block_elements,
                              " elements"));
  const std::uint64_t blocks = info.elements() / type->block_elements;
  if (blocks > int64_max / type->block_bytes)
    throw cursor.error("type", at, concat("is ", type->name, "; with ", info.elements(), " elements that is more than 2^63 bytes"));
  info.dtype = type->dtype;
  info.bytes = blocks * type->block_bytes;
}

Error offset_error(const Cursor& cursor, const Table& table, std::size_t i, std::string_view text) {
  return cursor.error(concat("tensor ", in_quotes(table.tensors[i].name), ": offset"), table.offset_at[i], text);
}

/// Makes the offset of tensor `i` one from the start of the file.
void place(const Cursor& cursor, Table& table, std::size_t i, std::uint64_t data_start, std::uint64_t alignment, std::uint64_t file_bytes) {
  TensorInfo& info = table.tensors[i];
  if (info.offset % alignment != 0)
    throw offset_error(cursor, table, i, concat("is ", info.offset, ", which is not a multiple of the alignment, ", alignment));
  const std::uint64_t room = file_bytes > data_start ? file_bytes - data_start : 0;
  if (info.offset > room || info.bytes > room - info.offset)
    throw offset_error(cursor, table, i,
                       concat("is ", info.offset, " from byte ", data_start, ", so its ", info.bytes,
                              " bytes of data end beyond the file, which has ", file_bytes, " bytes; the download is probably incomplete"));
  info.offset += data_start;
}

void check_disjoint(const Cursor& cursor, const Table& table) {
  std::vector<std::uint32_t> by_offset(table.tensors.size());
  std::iota(by_offset.begin(), by_offset.end(), 0u);
  std::ranges::sort(by_offset, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(table.tensors[a].offset, a) < std::pair(table.tensors[b].offset, b);
  });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo& before = table.tensors[by_offset[i - 1]];
    const TensorInfo& info = table.tensors[by_offset[i]];
    if (before.offset + before.bytes > info.offset)
      throw offset_error(cursor, table, by_offset[i],
                         concat("puts its data at byte ", info.offset, ", inside that of tensor ", in_quotes(before.name),
                                ", which ends at byte ", before.offset + before.bytes));
  }
}

}  // namespace

std::vector<TensorInfo> read_tensors(Cursor& cursor, std::uint64_t count, std::uint64_t alignment, std::uint64_t file_bytes) {
  Table table;
  table.tensors.reserve(count);  // the caller has checked it against the file and the limit
  table.offset_at.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    TensorInfo& info = table.tensors.emplace_back();
    info.name = read_name(cursor);
    read_dims(cursor, info);
    read_type(cursor, info);
    table.offset_at.push_back(cursor.at());
    info.offset = cursor.read<std::uint64_t>("offset");
  }
  cursor.belong_to({}, {});
  // The header ends inside the file and the alignment is bounded, so this does not wrap.
  const std::uint64_t data_start = (cursor.at() + alignment - 1) / alignment * alignment;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) place(cursor, table, i, data_start, alignment, file_bytes);
  check_disjoint(cursor, table);
  return std::move(table.tensors);
}

}  // namespace quern::gguf
