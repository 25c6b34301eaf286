// Writes small GGUF files for tests: good ones, and ones with exactly one thing wrong.
//
// A test starts from a good model (of its own making or a copy of a file), changes one field and hands the
// bytes to the reader. Everything that the format derives (counts, lengths, offsets, sizes) can be
// overridden, so that each way to lie is one line. The writer itself checks nothing.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::test {

class GgufWriter {
 public:
  using Bytes = std::vector<std::byte>;

  struct Key {
    std::string name;
    std::uint32_t type = 0;  ///< a gguf::ValueType, or any number
    Bytes value;             ///< as it lies in the file, with array type, counts and lengths
    std::optional<std::uint64_t> name_length;
  };

  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;  ///< dims[0] is the contiguous one
    std::uint32_t type = 0;           ///< a ggml type id
    Bytes data;
    std::optional<std::uint64_t> name_length;
    std::optional<std::uint32_t> n_dims;
    std::optional<std::uint64_t> offset;
  };

  /// All keys and tensors of the first shard and of all shards, respectively.
  static GgufWriter copy_of(const gguf::File& file);

  // A key that is there already gets the new value and keeps its place.
  GgufWriter& u8(std::string_view key, std::uint8_t value);
  GgufWriter& i8(std::string_view key, std::int8_t value);
  GgufWriter& u16(std::string_view key, std::uint16_t value);
  GgufWriter& i16(std::string_view key, std::int16_t value);
  GgufWriter& u32(std::string_view key, std::uint32_t value);
  GgufWriter& i32(std::string_view key, std::int32_t value);
  GgufWriter& u64(std::string_view key, std::uint64_t value);
  GgufWriter& i64(std::string_view key, std::int64_t value);
  GgufWriter& f32(std::string_view key, float value);
  GgufWriter& f64(std::string_view key, double value);
  GgufWriter& boolean(std::string_view key, bool value);
  GgufWriter& string(std::string_view key, std::string_view value);
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& i32s(std::string_view key, const std::vector<std::int32_t>& values);
  GgufWriter& u32s(std::string_view key, const std::vector<std::uint32_t>& values);
  GgufWriter& u64s(std::string_view key, const std::vector<std::uint64_t>& values);
  GgufWriter& f32s(std::string_view key, const std::vector<float>& values);
  GgufWriter& f64s(std::string_view key, const std::vector<double>& values);
  GgufWriter& booleans(std::string_view key, const std::vector<std::uint8_t>& values);
  /// Any type id and any bytes.
  GgufWriter& raw(std::string_view key, std::uint32_t type, Bytes value);
  /// An array whose head says `element` and `count`, whatever `elements` holds.
  GgufWriter& raw_array(std::string_view key, std::uint32_t element, std::uint64_t count, Bytes elements);
  GgufWriter& remove(std::string_view key);

  GgufWriter& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t ggml_type, Bytes data);
  GgufWriter& tensor_f32(std::string_view name, std::vector<std::uint64_t> dims, const std::vector<float>& values);
  GgufWriter& remove_tensor(std::string_view name);

  GgufWriter& magic(std::string_view four) { return magic_ = four, *this; }
  GgufWriter& version(std::uint32_t value) { return version_ = value, *this; }
  GgufWriter& declare_keys(std::uint64_t count) { return n_keys_ = count, *this; }
  GgufWriter& declare_tensors(std::uint64_t count) { return n_tensors_ = count, *this; }
  /// Of the data; the key general.alignment is the test's own business.
  GgufWriter& align_to(std::uint64_t bytes) { return alignment_ = bytes, *this; }

  // For changes that have no method. The references hold until the next change.
  std::vector<Key>& keys() { return keys_; }
  std::vector<Tensor>& tensors() { return tensors_; }
  Key& key(std::string_view name);
  Tensor& tensor(std::string_view name);

  Bytes bytes() const;
  void write(const std::filesystem::path& path) const;

 private:
  std::string magic_ = "GGUF";
  std::uint32_t version_ = 3;
  std::optional<std::uint64_t> n_keys_;
  std::optional<std::uint64_t> n_tensors_;
  std::uint64_t alignment_ = 32;
  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
};

/// The bytes of any trivially copyable value.
template <typename T>
GgufWriter::Bytes bytes_of(const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  return GgufWriter::Bytes(first, first + sizeof value);
}

/// A length and the text, as strings lie in the file.
GgufWriter::Bytes string_bytes(std::string_view text);

/// Throws std::runtime_error if the file cannot be written.
void write_bytes(const std::filesystem::path& path, const GgufWriter::Bytes& bytes);
/// Throws std::runtime_error if the file cannot be read.
GgufWriter::Bytes read_bytes(const std::filesystem::path& path);

}  // namespace quern::test
