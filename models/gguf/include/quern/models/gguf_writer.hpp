// Writes GGUF files of version 3: merged models and adapters.
//
// Metadata and the list of tensors come first, then the tensors' bytes in that order, so that no more than a piece of one has to be in
// memory. The file is written aside and takes its name at commit(). What is written is what the reader (gguf.hpp) takes: its limits hold
// here too.
#pragma once

#include "quern/base/files.hpp"
#include "quern/models/gguf.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::gguf {

/// The number by which the file names a type that the reader takes. Throws Error(QUERN_INVALID_ARGUMENT) for any other.
std::uint32_t ggml_type_of(quern_dtype dtype);

/// Of file `no` of `count`, from 1, of a model that is split: "dir/name.gguf" to "dir/name-00001-of-00003.gguf". 1024 files at most, or
/// Error(QUERN_INVALID_ARGUMENT).
std::string shard_path(const std::string& path, std::uint64_t no, std::uint64_t count);

/// Declare keys and tensors, begin(), append the bytes in the order of order(), commit(). Without commit() nothing stays. A step out of
/// turn is Error(QUERN_INVALID_ARGUMENT), as is all that the reader would not take.
class Writer {
 public:
  /// Of the tensors' data: a power of two, from 8 to 2^24. Other than 32 it becomes the key general.alignment.
  explicit Writer(std::uint32_t alignment = 32);

  // A key that is there already gets the new value and keeps its place. general.alignment is the writer's own.
  void u8(std::string_view key, std::uint8_t value) { put_number(key, ValueType::u8, value); }
  void i8(std::string_view key, std::int8_t value) { put_number(key, ValueType::i8, value); }
  void u16(std::string_view key, std::uint16_t value) { put_number(key, ValueType::u16, value); }
  void i16(std::string_view key, std::int16_t value) { put_number(key, ValueType::i16, value); }
  void u32(std::string_view key, std::uint32_t value) { put_number(key, ValueType::u32, value); }
  void i32(std::string_view key, std::int32_t value) { put_number(key, ValueType::i32, value); }
  void u64(std::string_view key, std::uint64_t value) { put_number(key, ValueType::u64, value); }
  void i64(std::string_view key, std::int64_t value) { put_number(key, ValueType::i64, value); }
  void f32(std::string_view key, float value) { put_number(key, ValueType::f32, value); }
  void f64(std::string_view key, double value) { put_number(key, ValueType::f64, value); }
  void boolean(std::string_view key, bool value) { put_number(key, ValueType::boolean, static_cast<std::uint8_t>(value)); }
  void string(std::string_view key, std::string_view value);
  void strings(std::string_view key, std::span<const std::string> values);
  void booleans(std::string_view key, const std::vector<bool>& values);
  /// Of u8, i8, ..., u64, i64, f32 or f64.
  template <typename T>
  void numbers(std::string_view key, std::span<const T> values) {
    put_array(key, type_of<T>(), values.size(), std::as_bytes(values));
  }

  /// A key of another file, as it lies there.
  void copy(const File& file, std::string_view key);
  /// All keys of a file but general.alignment and those of a split one (split.no, split.count, ...), in its order.
  void copy_keys(const File& file);
  void remove(std::string_view key);

  /// dims[0] is the contiguous one; 1 to 4 of them. dims[0] is whole blocks of the type.
  void tensor(std::string name, std::vector<std::uint64_t> dims, quern_dtype dtype);

  /// A file of the keys alone, in memory (Assembly::keys).
  std::vector<std::byte> bytes_of_keys() const;

  /// Opens the file beside `path` and writes all that stands in front of the data. Throws Error(QUERN_IO or QUERN_PERMISSION).
  void begin(const std::string& path);
  /// The tensors in the order of their bytes: that of their declaration. Behind begin(), `offset` counts from the start of the file.
  const std::vector<TensorInfo>& order() const noexcept { return tensors_; }
  /// The next bytes of the tensors, without padding, which is added. A piece may end anywhere, within a tensor or behind several.
  void append(std::span<const std::byte> bytes);
  /// Syncs and renames the file. All bytes must have been appended.
  void commit();

 private:
  enum class Stage : std::uint8_t { declaring, appending, done };
  struct Key {
    std::string name;
    ValueType type;
    std::vector<std::byte> value;
  };

  template <typename T>
  static constexpr ValueType type_of() {
    if constexpr (std::same_as<T, std::uint8_t>) return ValueType::u8;
    else if constexpr (std::same_as<T, std::int8_t>) return ValueType::i8;
    else if constexpr (std::same_as<T, std::uint16_t>) return ValueType::u16;
    else if constexpr (std::same_as<T, std::int16_t>) return ValueType::i16;
    else if constexpr (std::same_as<T, std::uint32_t>) return ValueType::u32;
    else if constexpr (std::same_as<T, std::int32_t>) return ValueType::i32;
    else if constexpr (std::same_as<T, std::uint64_t>) return ValueType::u64;
    else if constexpr (std::same_as<T, std::int64_t>) return ValueType::i64;
    else if constexpr (std::same_as<T, float>) return ValueType::f32;
    else {
      static_assert(std::same_as<T, double>, "a type that GGUF has");
      return ValueType::f64;
    }
  }
  template <typename T>
  void put_number(std::string_view key, ValueType type, T value) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span<const T>(&value, 1));
    put(key, type, {bytes.begin(), bytes.end()});
  }

  void put(std::string_view key, ValueType type, std::vector<std::byte> value);
  void put_array(std::string_view key, ValueType element, std::uint64_t count, std::span<const std::byte> elements);
  void require(Stage stage, std::string_view action) const;
  std::vector<std::byte> head(std::span<const TensorInfo> tensors) const;
  void fill_up();

  std::uint32_t alignment_;
  std::vector<Key> keys_;
  std::vector<TensorInfo> tensors_;
  base::NewFile file_;
  std::string path_;
  std::size_t current_ = 0;  // the tensor whose bytes come next
  std::uint64_t done_ = 0;   // of its bytes
  std::uint64_t at_ = 0;     // bytes of the file that are written
  Stage stage_ = Stage::declaring;
};

}  // namespace quern::gguf
