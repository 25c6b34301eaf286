// Reads and writes safetensors files: adapters, optimiser state and weights as Hugging Face's tools keep them.
//
// A file is a length of 64 bits, a header in JSON of so many bytes, and the tensors one after another. The reader trusts nothing in it:
// each size is checked against the real file before it is used, so a malformed file ends in one Error(QUERN_BAD_MODEL) that names the file
// and what is wrong. The writer makes the same bytes from the same tensors, in whatever order they are given.
#pragma once

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/quern_dtypes.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::safetensors {

/// Types of elements, in the format's own order: the writer puts tensors of later types first.
enum class Dtype : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// "F32", "BF16", ... as the header spells it.
std::string_view name_of(Dtype dtype) noexcept;
/// Bits of an element.
unsigned bits_of(Dtype dtype) noexcept;
/// QUERN_F32, QUERN_F16 or QUERN_BF16; QUERN_DTYPE_NONE for all others.
quern_dtype float_type(Dtype dtype) noexcept;
/// The inverse; nothing for a type that is none of the three.
std::optional<Dtype> from_float_type(quern_dtype dtype) noexcept;

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;  ///< the last one is contiguous; empty for a single number; at most 8
  std::uint64_t offset = 0;          ///< from the start of the file, in bytes
  std::uint64_t bytes = 0;

  std::uint64_t elements() const noexcept;
};

/// Limits far above any real file. They bound what the header of a hostile one costs: a tree of JSON of about 30 times the header's bytes,
/// and 200 MiB at most.
constexpr std::uint64_t most_header_bytes = std::uint64_t{32} << 20;
constexpr std::uint64_t most_dimensions = 8;

/// One open file, or bytes in memory. Move-only. All const functions may be called from several threads at once.
class File {
 public:
  /// Throws Error: what base's reader finds (QUERN_NOT_FOUND, QUERN_PERMISSION, QUERN_IO), QUERN_BAD_MODEL for a malformed file. Tensors
  /// are read when they are asked for.
  static File open(const std::string& path);
  /// `bytes` must outlive the File; `name` stands for the path in errors.
  static File from_memory(std::span<const std::byte> bytes, std::string name);

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  /// The path as it was given.
  const std::string& name() const noexcept;
  /// What "__metadata__" has.
  const std::map<std::string, std::string>& metadata() const noexcept;
  /// In the order of their bytes in the file.
  const std::vector<TensorInfo>& tensors() const noexcept;
  /// Null if there is none.
  const TensorInfo* find(std::string_view tensor) const noexcept;
  /// Throws Error(QUERN_NOT_FOUND) naming file and tensor if there is none.
  const TensorInfo& require(std::string_view tensor) const;

  /// The bytes of one of tensors(). Throws Error(QUERN_IO) where the file cannot be read any more.
  std::vector<std::byte> read_bytes(const TensorInfo& tensor) const;
  /// The numbers of a tensor of type F32, F16 or BF16, row-major; exact. Any other type is refused with Error(QUERN_UNSUPPORTED).
  std::vector<float> read_f32(const TensorInfo& tensor) const;
  std::vector<float> read_f32(std::string_view tensor) const { return read_f32(require(tensor)); }

  /// The Error(QUERN_BAD_MODEL) with which other parts refuse a tensor: "<file>: tensor '<name>': <text>".
  Error bad_tensor(std::string_view tensor, std::string_view text) const;

 private:
  struct Contents;
  explicit File(std::unique_ptr<Contents> contents) noexcept;
  std::unique_ptr<Contents> contents_;
};

/// Writes one file, tensor by tensor, so that no more than a piece of one has to be in memory. Declare all tensors, begin(), append the
/// bytes in the order of order(), commit(). Without commit() nothing stays. A step out of turn is Error(QUERN_INVALID_ARGUMENT).
class Writer {
 public:
  /// by_type: and then by name, as Hugging Face's writer orders them. as_declared: what belongs together stays together.
  enum class Order : std::uint8_t { by_type, as_declared };

  /// Text of "__metadata__", in UTF-8; replaces what the key had.
  void metadata(std::string_view key, std::string_view text);
  /// Throws Error(QUERN_INVALID_ARGUMENT) for a name that is there already, or is empty or "__metadata__", and for a size beyond 2^63.
  void tensor(std::string name, Dtype dtype, std::vector<std::uint64_t> shape);

  /// Opens the file beside `path` and writes the header. Throws Error(QUERN_IO or QUERN_PERMISSION) with the reason.
  void begin(const std::string& path, Order order = Order::by_type);
  /// Behind begin(): the tensors in the order of their bytes.
  const std::vector<TensorInfo>& order() const noexcept { return tensors_; }
  /// The next bytes; a piece may end anywhere, within a tensor or behind several.
  void append(std::span<const std::byte> bytes);
  /// Syncs and renames the file. All bytes must have been appended.
  void commit();

 private:
  enum class Stage : std::uint8_t { declaring, appending, done };
  void require(Stage stage, std::string_view action) const;

  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  base::NewFile file_;
  std::string path_;
  std::uint64_t left_ = 0;  // bytes that are still to be appended
  Stage stage_ = Stage::declaring;
};

/// A tensor whose bytes are in memory, for write().
struct NewTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes the whole file. Throws as Writer does, and Error(QUERN_INVALID_ARGUMENT) where bytes and shape differ in size.
void write(const std::string& path, std::span<const NewTensor> tensors, const std::map<std::string, std::string>& metadata = {});

}  // namespace quern::safetensors
