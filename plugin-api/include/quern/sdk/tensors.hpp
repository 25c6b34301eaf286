// Values as kernels of a device see them: an address, an element type, dims and byte strides; and what ops check of them.
//
// For plugins with device memory, as calls.hpp, resolved.hpp, scratch.hpp, bindings.hpp and synchronous.hpp: together they are all of
// such a plugin but its memory, its kernels and its queue.
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_TENSORS_HPP
#define QUERN_SDK_TENSORS_HPP

#include "quern/sdk/graph.hpp"

#include <algorithm>
#include <initializer_list>

namespace quern {
namespace sdk {

struct Tensor {
  std::uint64_t data = 0;                // a device address
  quern_dtype dtype = QUERN_DTYPE_NONE;  ///< NONE: absent
  std::uint32_t rank = 0;
  std::uint32_t ranged = 0;  ///< bit d: dims[d] may be smaller in a run
  std::int64_t dims[QUERN_MAX_DIMS] = {};
  std::int64_t strides[QUERN_MAX_DIMS] = {};  ///< bytes; of the last dimension: of an element, or of a block
  bool packed_layout = false;                 ///< lies in a layout of the plugin, not in rows
  const char* name = "";

  bool present() const noexcept { return dtype != QUERN_DTYPE_NONE; }
  /// dims[rank - 1 - from_end]; 1 beyond the rank, so that a missing leading dim reads as 1. Its stride there is 0.
  std::int64_t dim_from_end(std::uint32_t from_end) const noexcept { return from_end < rank ? dims[rank - 1 - from_end] : 1; }
  std::int64_t stride_from_end(std::uint32_t from_end) const noexcept { return from_end < rank ? strides[rank - 1 - from_end] : 0; }
  std::int64_t last() const noexcept { return dim_from_end(0); }
  std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (std::uint32_t d = 0; d < rank; ++d) n *= dims[d];
    return n;
  }
  /// Product of all dims but the last.
  std::int64_t rows() const noexcept {
    std::int64_t n = 1;
    for (std::uint32_t d = 0; d + 1 < rank; ++d) n *= dims[d];
    return n;
  }
};

inline bool is_float(quern_dtype dtype) noexcept { return dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16; }
inline bool is_block(quern_dtype dtype) noexcept {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return true;
  return false;
}

/// Whether it lies in row-major order without gaps, at the dims that it has now.
inline bool is_contiguous(const Tensor& t) noexcept {
  if (t.elements() == 0) return true;  // whatever its strides
  const ElementSize size = find_element_size(t.dtype);
  if (size.bytes == 0) return false;
  std::int64_t step = static_cast<std::int64_t>(size.bytes);
  for (std::uint32_t d = t.rank; d-- > 0;) {
    const std::int64_t n = d + 1 == t.rank ? t.dims[d] / static_cast<std::int64_t>(size.elements) : t.dims[d];
    if (n > 1 && t.strides[d] != step) return false;
    step *= n;
  }
  return true;
}
/// Whether the elements of each row, or its blocks, lie next to each other.
inline bool has_packed_rows(const Tensor& t) noexcept {
  const ElementSize size = find_element_size(t.dtype);
  return t.last() <= static_cast<std::int64_t>(size.elements) || t.stride_from_end(0) == static_cast<std::int64_t>(size.bytes);
}

/// "[2, up to 3] f32"
inline std::string shape_text(const Tensor& t) {
  std::string text = "[";
  for (std::uint32_t d = 0; d < t.rank; ++d) text += concat(d == 0 ? "" : ", ", (t.ranged >> d & 1u) != 0 ? "up to " : "", t.dims[d]);
  return text + concat("] ", dtype_name(t.dtype));
}
inline std::string describe(const Tensor& t) { return concat("'", t.name, "' ", shape_text(t)); }

// Checks that ops share. Each returns an empty text or the reason of a "no".
inline std::string check_floats(const Tensor& t) { return is_float(t.dtype) ? "" : concat(describe(t), "; f32, f16 or bf16 is taken"); }
inline std::string check_dtype(const Tensor& t, quern_dtype dtype) {
  return t.dtype == dtype ? "" : concat(describe(t), "; ", dtype_name(dtype), " is taken");
}
inline std::string check_rank(const Tensor& t, std::uint32_t rank) {
  return t.rank == rank ? "" : concat(describe(t), "; it has ", rank, " dimensions");
}
inline std::string check_contiguous(const Tensor& t) {
  return !t.present() || t.packed_layout || is_contiguous(t) ? "" : concat(describe(t), " is strided and this kernel reads packed memory");
}
inline std::string check_packed_rows(const Tensor& t) {
  return !t.present() || has_packed_rows(t) ? "" : concat(describe(t), ": the elements of its rows lie apart");
}
inline std::string check_packed_f32(const Tensor& t) {
  if (!t.present()) return {};
  return t.dtype == QUERN_F32 ? check_contiguous(t) : check_dtype(t, QUERN_F32);
}
inline bool same_shape(const Tensor& a, const Tensor& b) noexcept {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}
inline std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons)
    if (!reason.empty()) return reason;
  return {};
}
/// Whether each dim of `small`, aligned at the last, is 1 or that of `large`.
inline bool broadcasts(const Tensor& small, const Tensor& large) noexcept {
  if (small.rank > large.rank) return false;
  for (std::uint32_t d = 0; d < small.rank; ++d) {
    const std::int64_t n = small.dims[d];
    if (n != 1 && n != large.dims[d + large.rank - small.rank]) return false;
  }
  return true;
}

}  // namespace sdk
}  // namespace quern

#endif
