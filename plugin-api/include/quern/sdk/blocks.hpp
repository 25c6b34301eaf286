// The bytes of block formats as fields, and matrices that lie as planes of such fields. All of it follows
// from quern_formats.h.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_BLOCKS_HPP
#define QUERN_SDK_BLOCKS_HPP

#include "quern/sdk/lists.hpp"

#include <charconv>
#include <iterator>

namespace quern {
namespace sdk {

/// The descriptor of a block format, or null for another dtype.
constexpr const quern_format* find_format(quern_dtype dtype) noexcept {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return &format;
  return nullptr;
}
inline const quern_format* find_format(std::string_view name) noexcept {
  for (const quern_format& format : quern_formats)
    if (view(format.name) == name) return &format;
  return nullptr;
}

/// A block's bytes as up to four fields, each in one piece: scales and minima, codes, high bits of codes,
/// scales of whole bytes.
struct BlockFields {
  static constexpr int count = 4;
  std::uint32_t block_bytes = 0, elements = 0;
  std::uint32_t offset[count] = {}, bytes[count] = {};  ///< bytes of 0: the format has no such field
};

namespace detail {

/// Widens field f of a block by the bytes that a piece covers.
inline void cover(BlockFields& fields, int f, const quern_format_piece& piece) noexcept {
  std::uint32_t end = piece.bit_offset + piece.bits;
  for (std::uint32_t d = 0; d < piece.rank; ++d) end += (piece.dims[d].size - 1) * piece.dims[d].stride;
  const std::uint32_t first = piece.bit_offset / 8, last = (end + 7) / 8;
  const bool fresh = fields.bytes[f] == 0;
  const std::uint32_t from = fresh ? first : std::min(first, fields.offset[f]);
  const std::uint32_t to = fresh ? last : std::max(last, fields.offset[f] + fields.bytes[f]);
  fields.offset[f] = from;
  fields.bytes[f] = to - from;
}

/// The tables are ours: read as they lie, so that nothing is thrown.
inline BlockFields fields_of(const quern_format& format) noexcept {
  BlockFields fields;
  fields.block_bytes = format.block_bytes;
  fields.elements = format.block_elements;
  const auto* field = static_cast<const quern_format_field*>(format.fields.data);
  for (const auto* end = field + format.fields.count; field != end; ++field) {
    const auto* pieces = static_cast<const quern_format_piece*>(field->pieces.data);
    for (std::uint64_t p = 0; p < field->pieces.count; ++p) {
      const bool sub_scale = field->role == QUERN_ROLE_SCALE && pieces[p].bits % 8 == 0;
      cover(fields, field->role == QUERN_ROLE_CODE ? 1 + static_cast<int>(p) : sub_scale ? 3 : 0, pieces[p]);
    }
  }
  return fields;
}

}  // namespace detail

/// All zeros for a dtype that is no block format.
inline const BlockFields& block_fields(quern_dtype dtype) noexcept {
  struct Table {
    BlockFields of[std::size(quern_formats)];
    BlockFields none;
    Table() noexcept {
      for (std::size_t i = 0; i < std::size(quern_formats); ++i) of[i] = detail::fields_of(quern_formats[i]);
    }
  };
  static const Table table;
  // By place, not by the distance of a pointer: each source file has its own quern_formats, and find_format may be another file's.
  for (std::size_t i = 0; i < std::size(quern_formats); ++i)
    if (quern_formats[i].id == dtype) return table.of[i];
  return table.none;
}

/// Whether matrices of a format gain by planes: those whose blocks do not start at multiples of 16 bytes.
constexpr bool gains_by_planes(quern_dtype dtype) noexcept {
  const quern_format* format = find_format(dtype);
  return format != nullptr && format->block_bytes % 16 != 0;
}

inline constexpr std::uint64_t plane_alignment = 256;

/// A matrix whose blocks are taken apart: all first fields, then all second ones, and so on, each plane at a
/// multiple of plane_alignment.
struct PlaneLayout {
  quern_dtype dtype = QUERN_DTYPE_NONE;  ///< NONE: no such layout
  std::int64_t rows = 0, k = 0;

  explicit operator bool() const noexcept { return dtype != QUERN_DTYPE_NONE; }
  std::uint64_t blocks() const { return static_cast<std::uint64_t>(rows) * (static_cast<std::uint64_t>(k) / block_fields(dtype).elements); }
  std::uint64_t source_bytes() const { return blocks() * block_fields(dtype).block_bytes; }
  /// Where a plane begins; plane BlockFields::count is the end.
  std::uint64_t plane(int index) const {
    const BlockFields& fields = block_fields(dtype);
    std::uint64_t at = 0;
    for (int f = 0; f < index; ++f) at += (blocks() * fields.bytes[f] + plane_alignment - 1) / plane_alignment * plane_alignment;
    return at;
  }
  std::uint64_t bytes() const { return plane(BlockFields::count); }
  /// "cuda.planes.q6_k.4096x11008"
  std::string key(std::string_view plugin) const {
    const quern_format* format = find_format(dtype);
    return concat(plugin, ".planes.", format == nullptr ? std::string_view() : view(format->name), ".", rows, "x", k);
  }
};

/// The layout of a key that PlaneLayout::key made for this plugin; dtype NONE for any other text.
inline PlaneLayout parse_plane_layout(std::string_view plugin, std::string_view key) {
  const std::string prefix = concat(plugin, ".planes.");
  if (key.substr(0, prefix.size()) != prefix) return {};
  key.remove_prefix(prefix.size());
  const std::size_t dot = key.find('.'), cross = key.find('x', dot == std::string_view::npos ? 0 : dot);
  if (dot == std::string_view::npos || cross == std::string_view::npos) return {};
  const auto number = [](std::string_view text, std::int64_t& to) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), to);
    return result.ec == std::errc() && result.ptr == text.data() + text.size() && to > 0 && to < std::int64_t{1} << 31;
  };
  PlaneLayout layout;
  if (!number(key.substr(dot + 1, cross - dot - 1), layout.rows) || !number(key.substr(cross + 1), layout.k)) return {};
  const quern_format* format = find_format(key.substr(0, dot));
  if (format != nullptr && gains_by_planes(format->id) && layout.k % format->block_elements == 0) layout.dtype = format->id;
  return layout;
}

}  // namespace sdk
}  // namespace quern

#endif
