// The metadata section: keys and values. Values are checked and left where they are.
#include "parse.hpp"
#include "value_types.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace quern::gguf {
namespace {

ValueType read_type(Cursor& cursor, std::string_view field) {
  const std::uint64_t at = cursor.at();
  const auto id = cursor.read<std::uint32_t>(field);
  if (!is_value_type(id)) throw cursor.error(field, at, concat("is ", id, "; value types are 0 to 12"));
  return static_cast<ValueType>(id);
}

void check_booleans(Cursor& cursor, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto byte = std::to_integer<unsigned>(cursor.here()[i]);
    if (byte > 1) throw cursor.error("value", cursor.at() + i, concat("is a boolean of ", byte, "; it must be 0 or 1"));
  }
}

void read_array(Cursor& cursor, Entry& entry) {
  const std::uint64_t type_at = cursor.at();
  entry.element = read_type(cursor, "array element type");
  if (entry.element == ValueType::array) throw cursor.error("array element type", type_at, "is array; arrays of arrays are not read");
  const std::uint64_t count_at = cursor.at();
  entry.count = cursor.read<std::uint64_t>("array count");
  entry.at = cursor.at();
  // A string takes at least its length field.
  const std::uint64_t least = entry.element == ValueType::string ? 8 : fixed_size(entry.element);
  if (entry.count > cursor.left() / least)
    throw cursor.error("array count", count_at,
                       concat("is ", entry.count, " elements of ", name_of(entry.element), " but only ", cursor.left(),
                              " bytes follow; the file is damaged or the download is incomplete"));
  if (entry.element == ValueType::string) {
    for (std::uint64_t i = 0; i < entry.count; ++i) cursor.string("array element");
    return;
  }
  if (entry.element == ValueType::boolean) check_booleans(cursor, entry.count);
  cursor.skip(entry.count * least, "array");
}

Entry read_entry(Cursor& cursor) {
  Entry entry;
  entry.key_at = cursor.at();
  cursor.belong_to({}, {});
  entry.key = cursor.string("key");
  if (entry.key.empty()) throw cursor.error("key", entry.key_at, "is empty");
  if (entry.key.size() > max_key)
    throw cursor.error("key", entry.key_at, concat("has ", entry.key.size(), " bytes; at most ", max_key, " are read"));
  cursor.belong_to("key", entry.key);
  entry.type = read_type(cursor, "value type");
  entry.at = cursor.at();
  if (entry.type == ValueType::array) {
    read_array(cursor, entry);
  } else if (entry.type == ValueType::string) {
    cursor.string("value");
  } else {
    cursor.skip(fixed_size(entry.type), "value");
    if (entry.type == ValueType::boolean && load<std::uint8_t>(cursor.here() - 1) > 1)
      throw cursor.error("value", entry.at, "is a boolean that is neither 0 nor 1");
  }
  return entry;
}

}  // namespace

std::vector<Entry> read_entries(Cursor& cursor, std::uint64_t count) {
  std::vector<Entry> entries;
  entries.reserve(count);  // the caller has checked it against the file and the limit
  for (std::uint64_t i = 0; i < count; ++i) entries.push_back(read_entry(cursor));
  cursor.belong_to({}, {});
  return entries;
}

EntryTable::EntryTable(std::vector<Entry> entries, const Cursor& cursor) : entries_(std::move(entries)), sorted_(entries_.size()) {
  std::iota(sorted_.begin(), sorted_.end(), 0u);
  // Equal keys stay in the order of the file, so that the second one is the one refused.
  std::ranges::sort(sorted_,
                    [&](std::uint32_t a, std::uint32_t b) { return std::pair(entries_[a].key, a) < std::pair(entries_[b].key, b); });
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    const Entry& second = entries_[sorted_[i]];
    if (second.key == entries_[sorted_[i - 1]].key)
      throw cursor.error(concat("key ", in_quotes(second.key)), second.key_at, "is there twice");
  }
}

const Entry* EntryTable::find(std::string_view key) const noexcept {
  const auto at = std::ranges::lower_bound(sorted_, key, {}, [&](std::uint32_t i) { return entries_[i].key; });
  return at != sorted_.end() && entries_[*at].key == key ? &entries_[*at] : nullptr;
}

}  // namespace quern::gguf
