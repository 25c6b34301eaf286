// One GGUF file, taken apart: its keys and its tensors, checked against its size.
#pragma once

#include "cursor.hpp"

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::gguf {

/// Limits far above any real model. They bound memory (what is kept for one file stays below
/// 40 MiB) and the time to sort names.
constexpr std::uint64_t max_keys = 65536;
constexpr std::uint64_t max_tensors = 65536;
constexpr std::uint64_t max_key = 4096;
constexpr std::uint64_t max_tensor_name = 256;
constexpr std::uint64_t max_alignment = std::uint64_t{1} << 24;

/// A key and where its value lies. For an array, `element` and `count` describe it and `at` is its first
/// element.
struct Entry {
  std::string_view key;
  ValueType type = ValueType::u8;
  ValueType element = ValueType::u8;
  std::uint64_t count = 1;
  std::uint64_t at = 0;      ///< of the value (for a string, of its length)
  std::uint64_t key_at = 0;  ///< of the key, for errors
};

/// Entries in the order of the file, and the same by name. A sorted index instead of a hash: its worst case
/// is n log n, whatever names a file brings.
class EntryTable {
 public:
  /// Throws Error(QUERN_BAD_MODEL) through `cursor` if a key is there twice.
  EntryTable(std::vector<Entry> entries, const Cursor& cursor);
  EntryTable() = default;

  const std::vector<Entry>& in_file_order() const noexcept { return entries_; }
  const Entry* find(std::string_view key) const noexcept;

 private:
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> sorted_;
};

struct Parsed {
  std::uint32_t version = 0;
  EntryTable entries;
  std::vector<TensorInfo> tensors;  ///< offsets from the start of the file; shard is 0
};

/// Throws Error(QUERN_BAD_MODEL). The result holds views into `bytes`.
Parsed parse(std::span<const std::byte> bytes, const std::string& file);

// Steps of parse(), each in a file of its own.

/// Reads magic and version; returns the version. (magic.cpp)
std::uint32_t read_magic(Cursor& cursor, std::span<const std::byte> bytes, const std::string& file);

/// Reads `count` keys with their values. (entries.cpp)
std::vector<Entry> read_entries(Cursor& cursor, std::uint64_t count);

/// Reads `count` tensor records and checks that their data lies in the file, aligned and disjoint.
/// (tensor_table.cpp)
std::vector<TensorInfo> read_tensors(Cursor& cursor, std::uint64_t count, std::uint64_t alignment, std::uint64_t file_bytes);

}  // namespace quern::gguf
