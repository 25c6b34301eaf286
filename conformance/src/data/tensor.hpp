// A packed tensor in host memory, and its elements as f64: what the reference reads and the judge compares.
#pragma once

#include "quern/quern_formats.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::conformance {

using Dims = std::vector<std::int64_t>;

/// The smallest piece of a dtype that has bytes: an element, or a block of a format.
struct Unit {
  std::int64_t elements;
  std::uint64_t bytes;
};
/// Throws std::logic_error for a dtype that this suite does not know.
Unit unit_of(quern_dtype dtype);
/// The descriptor of a block format, or null for plain dtypes.
const quern_format* format_of(quern_dtype dtype) noexcept;
/// "f32", "q4_k"; "none" for QUERN_DTYPE_NONE.
std::string dtype_name(quern_dtype dtype);
bool is_float(quern_dtype dtype) noexcept;  // f32, f16, bf16
/// Whether it is a block format of which an element is a scale times its code and a minimum.
bool has_minimums(quern_dtype dtype);
/// Whether every element is exact in f32: not so where a minimum is added, or numbers of a code table are scaled.
bool decodes_exactly(quern_dtype dtype);
std::int64_t element_count(const Dims& dims) noexcept;
std::uint64_t packed_bytes(quern_dtype dtype, const Dims& dims);

/// Row-major, without gaps. Copies share the bytes. The bytes may lie in memory of another owner (shared memory).
class Tensor {
 public:
  Tensor() = default;
  /// Zeroed memory of its own.
  Tensor(quern_dtype dtype, Dims dims);
  /// Over `bytes`, which the caller keeps; they are exactly packed_bytes(dtype, dims).
  Tensor(quern_dtype dtype, Dims dims, std::span<std::byte> bytes);

  quern_dtype dtype() const noexcept { return dtype_; }
  const Dims& dims() const noexcept { return dims_; }
  std::int64_t dim_from_end(std::size_t d) const noexcept { return d < dims_.size() ? dims_[dims_.size() - 1 - d] : 1; }
  std::int64_t count() const noexcept { return count_; }
  bool absent() const noexcept { return dtype_ == QUERN_DTYPE_NONE; }
  std::span<std::byte> bytes() const noexcept { return bytes_; }

  /// Element i in f64: exact for every dtype but i64 above 2^53. Block formats by their descriptor, unrounded.
  double at(std::int64_t i) const;
  /// Elements first .. first + count - 1.
  void read(std::int64_t first, std::int64_t count, double* out) const;
  std::vector<double> values() const;
  /// read(), and the size of each element: |scale code| + |minimum| of a block format with minimums, which is what rounding errors scale
  /// with where the two parts are multiplied apart; |x| of any other dtype.
  void read_sized(std::int64_t first, std::int64_t count, double* out, double* sizes) const;

  /// Rounds x to the dtype (nearest even; integers: truncated) and stores it. Not for block formats.
  void set(std::int64_t i, double x) const;
  /// The value that set() would leave: x rounded to the dtype.
  double rounded(double x) const;

 private:
  quern_dtype dtype_ = QUERN_DTYPE_NONE;
  Dims dims_;
  std::int64_t count_ = 0;
  std::shared_ptr<std::byte[]> owner_;
  std::span<std::byte> bytes_;
};

}  // namespace quern::conformance
