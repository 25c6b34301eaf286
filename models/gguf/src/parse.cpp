#include "parse.hpp"

#include <utility>

namespace quern::gguf {
namespace {

constexpr std::uint64_t default_alignment = 32;
constexpr std::uint64_t least_entry = 8 + 1 + 4 + 1;           // a key of one byte and a value of one byte
constexpr std::uint64_t least_tensor = 8 + 1 + 4 + 8 + 4 + 8;  // a name of one byte and one dimension

std::uint64_t read_count(Cursor& cursor, std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = cursor.at();
  const auto count = cursor.read<std::uint64_t>(field);
  if (count > limit) throw cursor.error(field, at, concat("is ", count, "; at most ", limit, " are read"));
  return count;
}

void check_count(const Cursor& cursor, std::string_view field, std::uint64_t at, std::uint64_t count, std::uint64_t least) {
  if (count > cursor.left() / least)
    throw cursor.error(field, at,
                       concat("is ", count, ", which takes at least ", count * least, " bytes, but only ", cursor.left(),
                              " bytes follow; the file is damaged or the download is incomplete"));
}

std::uint64_t alignment_of(const EntryTable& entries, const Cursor& cursor, std::span<const std::byte> bytes) {
  const Entry* entry = entries.find("general.alignment");
  if (entry == nullptr) return default_alignment;
  if (entry->type != ValueType::u32)
    throw cursor.error("key 'general.alignment'", entry->key_at, concat("is of type ", name_of(entry->type), ", not u32"));
  const std::uint64_t alignment = load<std::uint32_t>(bytes.data() + entry->at);
  if (alignment < 8 || alignment > max_alignment || (alignment & (alignment - 1)) != 0)
    throw cursor.error("key 'general.alignment'", entry->at,
                       concat("is ", alignment, "; it must be a power of two from 8 to ", max_alignment));
  return alignment;
}

}  // namespace

Parsed parse(std::span<const std::byte> bytes, const std::string& file) {
  Cursor cursor(bytes, file);
  Parsed parsed;
  parsed.version = read_magic(cursor, bytes, file);
  const std::uint64_t n_tensors_at = cursor.at();
  const std::uint64_t n_tensors = read_count(cursor, "n_tensors", max_tensors);
  const std::uint64_t n_kv_at = cursor.at();
  const std::uint64_t n_kv = read_count(cursor, "n_kv", max_keys);
  check_count(cursor, "n_tensors", n_tensors_at, n_tensors, least_tensor);
  check_count(cursor, "n_kv", n_kv_at, n_kv, least_entry);
  parsed.entries = EntryTable(read_entries(cursor, n_kv), cursor);
  const std::uint64_t alignment = alignment_of(parsed.entries, cursor, bytes);
  check_count(cursor, "n_tensors", n_tensors_at, n_tensors, least_tensor);
  parsed.tensors = read_tensors(cursor, n_tensors, alignment, bytes.size());
  return parsed;
}

}  // namespace quern::gguf
