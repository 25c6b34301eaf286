// Reads GGUF model files, versions 2 and 3, whole or split into shards.
//
// The reader trusts nothing in the file: every count, length, dimension and offset is checked in 64 bits
// against the real file size before it is used, so a malformed file ends in one Error(QUERN_BAD_MODEL) that
// names the file, the field and its byte offset. It judges the container only; what a key means is for the
// tokenizer, the chat template and the architecture. Strings and arrays are views into the mapped file:
// nothing is copied but tensor names.
#pragma once

#include "quern/graph/error.hpp"
#include "quern/quern_dtypes.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::gguf {

/// Types of metadata values; the numbers are the file's.
enum class ValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12
};

/// "u32", "string", ...; "unknown" for a number outside the enumeration.
std::string_view name_of(ValueType type) noexcept;

/// "Q4_K", ... as GGUF spells it, and in the same way a block format that GGUF files do not have; empty for any other dtype.
std::string_view type_name(quern_dtype dtype) noexcept;

/// Whether a GGUF file can hold it.
bool has_ggml_type(quern_dtype dtype) noexcept;

/// TensorInfo::ggml_type of a block format that GGUF files do not have.
inline constexpr std::uint32_t no_ggml_type = UINT32_MAX;

/// An array of strings where it lies in the file. Elements have different lengths, so it is read in order;
/// use to_vector() for access by index. Views stay valid as long as the File does.
class StringArray {
 public:
  class iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    iterator() = default;
    std::string_view operator*() const noexcept;
    iterator& operator++() noexcept;
    iterator operator++(int) noexcept {
      iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const iterator& other) const noexcept { return left_ == other.left_; }

   private:
    friend class StringArray;
    iterator(const std::byte* at, std::uint64_t left) noexcept : at_(at), left_(left) {}
    const std::byte* at_ = nullptr;
    std::uint64_t left_ = 0;
  };

  using value_type = std::string_view;
  using const_iterator = iterator;

  StringArray() = default;
  /// For the reader only: `first` points at `count` checked elements.
  StringArray(const std::byte* first, std::uint64_t count) noexcept : first_(first), count_(count) {}

  std::uint64_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  iterator begin() const noexcept { return iterator(first_, count_); }
  iterator end() const noexcept { return iterator(nullptr, 0); }
  /// One view (16 bytes) an element.
  std::vector<std::string_view> to_vector() const;

 private:
  const std::byte* first_ = nullptr;
  std::uint64_t count_ = 0;
};

/// An array of integers (or booleans, as 0 and 1) of any width where it lies in the file.
class IntArray {
 public:
  IntArray() = default;
  /// For the reader only: `first` points at `count` checked elements of an integer type, each at most
  /// INT64_MAX.
  IntArray(const std::byte* first, std::uint64_t count, ValueType type) noexcept : first_(first), count_(count), type_(type) {}

  std::uint64_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  ValueType element_type() const noexcept { return type_; }
  /// Element `index`, which must be below size().
  std::int64_t operator[](std::uint64_t index) const noexcept;
  std::vector<std::int64_t> to_vector() const;

 private:
  const std::byte* first_ = nullptr;
  std::uint64_t count_ = 0;
  ValueType type_ = ValueType::i32;
};

/// An array of f32 or f64 where it lies in the file. Elements may be infinite or NaN.
class FloatArray {
 public:
  FloatArray() = default;
  /// For the reader only: `first` points at `count` checked elements of type f32 or f64.
  FloatArray(const std::byte* first, std::uint64_t count, ValueType type) noexcept : first_(first), count_(count), type_(type) {}

  std::uint64_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  ValueType element_type() const noexcept { return type_; }
  /// Element `index`, which must be below size().
  double operator[](std::uint64_t index) const noexcept;
  std::vector<double> to_vector() const;

 private:
  const std::byte* first_ = nullptr;
  std::uint64_t count_ = 0;
  ValueType type_ = ValueType::f32;
};

struct TensorInfo {
  std::string name;
  std::uint32_t n_dims = 0;              ///< 1 to 4
  std::uint64_t dims[4] = {1, 1, 1, 1};  ///< dims[0] is the contiguous one; those past n_dims are 1
  quern_dtype dtype = QUERN_DTYPE_NONE;  ///< never QUERN_DTYPE_NONE in an opened file
  std::uint32_t ggml_type = 0;           ///< the file's own type id; no_ggml_type where it is no GGUF file and has none
  std::uint64_t offset = 0;              ///< from the start of its shard's file, in bytes
  std::uint64_t bytes = 0;               ///< without padding
  std::uint32_t shard = 0;               ///< 0 for a file that is not split

  std::uint64_t elements() const noexcept { return dims[0] * dims[1] * dims[2] * dims[3]; }
  /// Numbers of the model: none of i32, which is an index.
  std::uint64_t parameters() const noexcept { return dtype == QUERN_I32 ? 0 : elements(); }
};

/// The bytes of a tensor as the graph reads them: in the file's mapping, or made of what lies there. Not a range, so that no view of a
/// temporary outlives it by mistake.
class TensorBytes {
 public:
  explicit TensorBytes(std::span<const std::byte> lying) noexcept : bytes_(lying) {}
  TensorBytes(std::unique_ptr<std::byte[]> made, std::size_t bytes) noexcept : made_(std::move(made)), bytes_(made_.get(), bytes) {}
  TensorBytes(TensorBytes&&) noexcept = default;
  TensorBytes& operator=(TensorBytes&&) noexcept = default;

  std::span<const std::byte> bytes() const& noexcept { return bytes_; }
  std::span<const std::byte> bytes() const&& = delete;

 private:
  std::unique_ptr<std::byte[]> made_;
  std::span<const std::byte> bytes_;
};

/// Bytes where they lie, one piece or several.
using LyingPieces = std::span<const std::span<const std::byte>>;

/// A tensor's bytes as parts that are made apart from each other, in any order and from several threads at once. Each has its own rows.
struct TensorParts {
  std::uint64_t count = 0;
  /// Makes part `i`. Throws Error(QUERN_BAD_MODEL) for numbers that have no place in it, the first of the part.
  std::function<void(std::uint64_t i)> make;
};

/// How a tensor is made of the pieces that lie in its files. `made` has the tensor's bytes and is filled by the parts; both ranges must outlive
/// these. Called from several threads at once.
using TensorChange = std::function<TensorParts(LyingPieces lying, std::span<std::byte> made)>;

/// Further bytes that a tensor is made of.
struct LyingPiece {
  std::uint32_t shard = 0;
  std::uint64_t offset = 0, bytes = 0;
};

/// A tensor of an Assembly: `lying_bytes` at tensor.offset of the file number tensor.shard.
struct AssembledTensor {
  TensorInfo tensor;                ///< name, n_dims, dims, dtype, shard and offset; the rest follows
  std::uint64_t lying_bytes = 0;    ///< as many as the tensor has, unless `change` makes others of them
  TensorChange change;              ///< empty: the bytes are taken as they lie
  std::vector<LyingPiece> further;  ///< what `change` gets behind the first piece
};

/// What a user should know of how a model is read, a sentence without a full stop.
struct Note {
  std::string text;
  bool warns = true;  ///< else it is said only to who asks
};

/// A model of several files that are no GGUF, with the keys and names that a GGUF file would have.
struct Assembly {
  std::string name;                ///< File::name()
  std::vector<std::byte> keys;     ///< Writer::bytes_of_keys()
  std::vector<std::string> files;  ///< to map, at least one; errors on keys name the first
  std::vector<AssembledTensor> tensors;
  std::vector<Note> notes;  ///< File::notes()
};

/// What the system says of a file when it is opened; changes with every write, also one that keeps size and time of change.
struct FileStamp {
  std::uint64_t bytes = 0, inode = 0;
  std::int64_t modified = 0, changed = 0;  // nanoseconds since 1970: of the content; of content, name or rights
  auto operator<=>(const FileStamp&) const = default;
};

/// One model: one mapped file, or all shards of a split one. Move-only; after a move the source may only be
/// destroyed or assigned to. All const functions may be called from several threads at once.
///
/// The mapping is read-only and private. A file that another process shortens while it is open ends the
/// reading process with SIGBUS, as with any mapping; replace model files by renaming.
class File {
 public:
  /// Opens `path`, which may be any shard of a split model ("name-00002-of-00003.gguf"): all shards are
  /// opened, by names made from that of `path`, never from the file's content. Links are followed. Throws
  /// Error: QUERN_NOT_FOUND if a file is not there, QUERN_PERMISSION or QUERN_IO if the system refuses it,
  /// QUERN_INVALID_ARGUMENT for a path that cannot name a file, QUERN_BAD_MODEL for everything else: not a
  /// regular file, malformed, of another version, with a tensor type outside the list, or shards that do not
  /// belong together.
  static File open(const std::filesystem::path& path);

  /// Reads a model that lies in memory; `bytes` must outlive the File. `name` stands for the path in errors.
  /// A shard of a split model is refused. Throws Error(QUERN_BAD_MODEL).
  static File from_memory(std::span<const std::byte> bytes, std::string name);

  /// Maps the files of an assembly. Throws Error as open() does; QUERN_BAD_MODEL if a name is there twice, a tensor lies outside its file,
  /// or its type and dimensions are none that a GGUF file has.
  static File assemble(Assembly parts);

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  /// The path as it was given.
  const std::string& name() const noexcept;
  /// 2 or 3; 0 for an assembly.
  std::uint32_t version() const noexcept;
  /// Sizes of all shards together.
  std::uint64_t file_bytes() const noexcept;
  /// 1 for a file that is not split.
  std::uint32_t shard_count() const noexcept;
  /// The path of a shard; the name given for shard 0 of a file that is not split. The files of an assembly count as shards.
  const std::string& shard_name(std::uint32_t shard) const;
  /// Of the file that is mapped, whatever lies at its path now; all zeros for a model in memory.
  FileStamp shard_stamp(std::uint32_t shard) const;

  /// All keys, in the order of the file; of the first shard, if split.
  std::vector<std::string_view> keys() const;
  bool has(std::string_view key) const noexcept;
  /// The type of a value, if the key is there.
  std::optional<ValueType> type_of(std::string_view key) const noexcept;
  /// The element type and count of an array, if the key is there and holds one.
  struct ArrayShape {
    ValueType element;
    std::uint64_t count;
  };
  std::optional<ArrayShape> array_shape(std::string_view key) const noexcept;

  // find_*: nothing if the key is absent; a value of another type is refused with Error(QUERN_BAD_MODEL) that
  // names the file, the key and the type found. require_*: an absent key is refused too.

  /// Any integer type; a negative value is refused.
  std::optional<std::uint64_t> find_u64(std::string_view key) const;
  /// Any integer type; a value above INT64_MAX is refused.
  std::optional<std::int64_t> find_i64(std::string_view key) const;
  /// f32 or f64; infinity and NaN are refused.
  std::optional<double> find_f64(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  /// The bytes as they are: neither UTF-8 nor the absence of NUL is checked.
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::optional<StringArray> find_strings(std::string_view key) const;
  /// An array of any integer type or of booleans; an element above INT64_MAX is refused.
  std::optional<IntArray> find_ints(std::string_view key) const;
  /// An array of f32 or f64.
  std::optional<FloatArray> find_floats(std::string_view key) const;

  std::uint64_t require_u64(std::string_view key) const;
  std::int64_t require_i64(std::string_view key) const;
  double require_f64(std::string_view key) const;
  bool require_bool(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;
  StringArray require_strings(std::string_view key) const;
  IntArray require_ints(std::string_view key) const;
  FloatArray require_floats(std::string_view key) const;

  /// The Error(QUERN_BAD_MODEL) with which other parts refuse a key's value: "<file>: key '<key>' (byte
  /// <offset>): <text>".
  Error bad_key(std::string_view key, std::string_view text) const;
  /// A value's bytes as they lie in the file, behind its type: for a string with its length, for an array with element type and count. What
  /// a writer copies a key with. Throws Error(QUERN_BAD_MODEL) if there is no such key.
  std::span<const std::byte> value_bytes(std::string_view key) const;
  /// The same for a tensor: "<file>: tensor '<name>': <text>".
  Error bad_tensor(std::string_view tensor, std::string_view text) const;

  /// In the order of the file, shard after shard. Empty for a file that holds only a vocabulary.
  const std::vector<TensorInfo>& tensors() const noexcept;
  /// Null if there is none. O(log n) in a sorted index: a crafted file cannot degrade it.
  const TensorInfo* find_tensor(std::string_view tensor) const noexcept;
  /// Throws Error(QUERN_BAD_MODEL) naming file and tensor if there is none.
  const TensorInfo& require_tensor(std::string_view tensor) const;
  /// The bytes that the graph reads; a tensor of an assembly may be made here. `tensor` must be one of tensors().
  TensorBytes read(const TensorInfo& tensor) const;
  /// Whether read() makes the bytes. Else they are data().
  bool is_made(const TensorInfo& tensor) const noexcept;
  /// The parts that fill `made` with what read() gives, for a tensor that is made; `made` has its bytes. `lying` is what lying() gives, and
  /// has to outlive the parts. Throws Error(QUERN_INTERNAL) for a tensor that is not made, or another size.
  TensorParts parts(const TensorInfo& tensor, LyingPieces lying, std::span<std::byte> made) const;
  /// None of a GGUF file.
  const std::vector<Note>& notes() const noexcept;
  /// The bytes as they lie in the file, in one piece but for a tensor that is made of several; for a fingerprint.
  std::vector<std::span<const std::byte>> lying(const TensorInfo& tensor) const;
  /// Both at once, for a tensor that nothing changes, as all of a GGUF file are. Throws Error(QUERN_INTERNAL) for another one.
  std::span<const std::byte> data(const TensorInfo& tensor) const;
  /// Tells the system that the pages that lie wholly inside this tensor are not needed now. They are read
  /// again when touched; data() stays valid. Lets a loader copy a large model with little resident memory.
  void drop_pages(const TensorInfo& tensor) const noexcept;

 private:
  struct Contents;
  explicit File(std::unique_ptr<Contents> contents) noexcept;
  std::unique_ptr<Contents> contents_;
};

}  // namespace quern::gguf
