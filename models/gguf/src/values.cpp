// Typed access to metadata values.
#include "contents.hpp"
#include "value_types.hpp"

#include "quern/base/terminal_text.hpp"

#include <cmath>
#include <limits>

namespace quern::gguf {
namespace {

std::string type_text(const Entry& entry) {
  if (entry.type != ValueType::array) return std::string(name_of(entry.type));
  return concat("array of ", entry.count, " ", name_of(entry.element));
}

Error wrong_type(const File& file, const Entry& entry, std::string_view wanted) {
  return file.bad_key(entry.key, concat("is of type ", type_text(entry), ", not ", wanted));
}

Error missing(const File& file, std::string_view key, std::string_view wanted) {
  return Error(QUERN_BAD_MODEL, concat(file.name(), ": key ", in_quotes(key), " is missing; it must be ", wanted));
}

constexpr std::string_view an_unsigned = "a non-negative integer";
constexpr std::string_view an_integer = "an integer";
constexpr std::string_view a_float = "a floating-point number";
constexpr std::string_view a_bool = "a boolean";
constexpr std::string_view a_string = "a string";
constexpr std::string_view strings = "an array of strings";
constexpr std::string_view ints = "an array of integers";
constexpr std::string_view floats = "an array of floating-point numbers";

template <typename T>
T required(const File& file, std::string_view key, std::string_view wanted, std::optional<T> value) {
  if (!value) throw missing(file, key, wanted);
  return *value;
}

}  // namespace

std::optional<std::uint64_t> File::find_u64(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (!is_integer(entry->type)) throw wrong_type(*this, *entry, an_unsigned);
  const std::byte* at = contents_->key_bytes().data() + entry->at;
  if (entry->type == ValueType::u64) return load<std::uint64_t>(at);
  const std::int64_t value = IntArray(at, 1, entry->type)[0];
  if (value < 0) throw bad_key(key, concat("is ", value, "; it must not be negative"));
  return static_cast<std::uint64_t>(value);
}

std::optional<std::int64_t> File::find_i64(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (!is_integer(entry->type)) throw wrong_type(*this, *entry, an_integer);
  const std::byte* at = contents_->key_bytes().data() + entry->at;
  if (entry->type == ValueType::u64 && load<std::uint64_t>(at) > INT64_MAX)
    throw bad_key(key, concat("is ", load<std::uint64_t>(at), "; at most 2^63 - 1 is read"));
  return IntArray(at, 1, entry->type)[0];
}

std::optional<double> File::find_f64(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (!is_float(entry->type)) throw wrong_type(*this, *entry, a_float);
  const double value = FloatArray(contents_->key_bytes().data() + entry->at, 1, entry->type)[0];
  if (!std::isfinite(value)) throw bad_key(key, concat("is ", value, "; it must be finite"));
  return value;
}

std::optional<bool> File::find_bool(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::boolean) throw wrong_type(*this, *entry, a_bool);
  return load<std::uint8_t>(contents_->key_bytes().data() + entry->at) != 0;
}

std::optional<std::string_view> File::find_string(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::string) throw wrong_type(*this, *entry, a_string);
  return *StringArray(contents_->key_bytes().data() + entry->at, 1).begin();
}

std::optional<StringArray> File::find_strings(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::array || entry->element != ValueType::string) throw wrong_type(*this, *entry, strings);
  return StringArray(contents_->key_bytes().data() + entry->at, entry->count);
}

std::optional<IntArray> File::find_ints(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::array || !(is_integer(entry->element) || entry->element == ValueType::boolean))
    throw wrong_type(*this, *entry, ints);
  const std::byte* first = contents_->key_bytes().data() + entry->at;
  if (entry->element == ValueType::u64)
    for (std::uint64_t i = 0; i < entry->count; ++i)
      if (load<std::uint64_t>(first + 8 * i) > INT64_MAX)
        throw bad_key(key, concat("has ", load<std::uint64_t>(first + 8 * i), " as element ", i, "; at most 2^63 - 1 is read"));
  return IntArray(first, entry->count, entry->element);
}

std::optional<FloatArray> File::find_floats(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::array || !is_float(entry->element)) throw wrong_type(*this, *entry, floats);
  return FloatArray(contents_->key_bytes().data() + entry->at, entry->count, entry->element);
}

std::span<const std::byte> File::value_bytes(std::string_view key) const {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr) throw Error(QUERN_BAD_MODEL, concat(name(), ": key ", in_quotes(key), " is missing"));
  const std::byte* const all = contents_->key_bytes().data();
  const auto after_string = [](const std::byte* at) { return at + 8 + load<std::uint64_t>(at); };  // checked when the file was read
  const std::byte* first = all + entry->at;
  if (entry->type == ValueType::string) return {first, after_string(first)};
  if (entry->type != ValueType::array) return {first, first + fixed_size(entry->type)};
  const std::byte* end = first + entry->count * fixed_size(entry->element);
  if (entry->element == ValueType::string)
    for (std::uint64_t i = 0; i < entry->count; ++i) end = after_string(end);
  return {first - array_head_bytes, end};
}

std::uint64_t File::require_u64(std::string_view key) const { return required(*this, key, an_unsigned, find_u64(key)); }
std::int64_t File::require_i64(std::string_view key) const { return required(*this, key, an_integer, find_i64(key)); }
double File::require_f64(std::string_view key) const { return required(*this, key, a_float, find_f64(key)); }
bool File::require_bool(std::string_view key) const { return required(*this, key, a_bool, find_bool(key)); }
std::string_view File::require_string(std::string_view key) const { return required(*this, key, a_string, find_string(key)); }
StringArray File::require_strings(std::string_view key) const { return required(*this, key, strings, find_strings(key)); }
IntArray File::require_ints(std::string_view key) const { return required(*this, key, ints, find_ints(key)); }
FloatArray File::require_floats(std::string_view key) const { return required(*this, key, floats, find_floats(key)); }

}  // namespace quern::gguf
