#include "walk.hpp"

#include <bit>
#include <string>

namespace quern::test {
namespace {

using gguf::ValueType;

std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = text.size();
  for (const char c : text) sum += static_cast<unsigned char>(c);
  return sum;
}

/// What `get` gives, or the length of the error with which it refuses; any other exception passes.
template <typename Get>
std::uint64_t value_or_refusal(Get get) {
  try {
    return get();
  } catch (const Error& error) { return sum_of(error.what()); }
}

std::uint64_t sum_of_strings(const gguf::File& file, std::string_view key) {
  const gguf::StringArray strings = file.require_strings(key);
  std::uint64_t sum = strings.to_vector().size();
  for (const std::string_view text : strings) sum += sum_of(text);
  return sum;
}

std::uint64_t sum_of_ints(const gguf::File& file, std::string_view key) {
  std::uint64_t sum = 0;
  for (const std::int64_t value : file.require_ints(key).to_vector()) sum += static_cast<std::uint64_t>(value);
  return sum;
}

std::uint64_t sum_of_floats(const gguf::File& file, std::string_view key) {
  std::uint64_t sum = 0;
  for (const double value : file.require_floats(key).to_vector()) sum += std::bit_cast<std::uint64_t>(value);
  return sum;
}

/// The getters that fit the value.
std::uint64_t value_of(const gguf::File& file, std::string_view key) {
  if (const auto shape = file.array_shape(key)) {
    if (shape->element == ValueType::string) return sum_of_strings(file, key);
    if (shape->element == ValueType::f32 || shape->element == ValueType::f64) return sum_of_floats(file, key);
    return value_or_refusal([&] { return sum_of_ints(file, key); });
  }
  switch (*file.type_of(key)) {
    case ValueType::boolean: return std::uint64_t{file.require_bool(key)};
    case ValueType::string: return sum_of(file.require_string(key));
    case ValueType::f32:
    case ValueType::f64: return value_or_refusal([&] { return std::bit_cast<std::uint64_t>(file.require_f64(key)); });
    default:
      return value_or_refusal([&] { return file.require_u64(key); }) +
             value_or_refusal([&] { return static_cast<std::uint64_t>(file.require_i64(key)); });
  }
}

/// Every getter, so that most refuse.
std::uint64_t every_getter(const gguf::File& file, std::string_view key) {
  return value_or_refusal([&] { return file.require_u64(key); }) +
         value_or_refusal([&] { return static_cast<std::uint64_t>(file.require_i64(key)); }) +
         value_or_refusal([&] { return std::bit_cast<std::uint64_t>(file.require_f64(key)); }) +
         value_or_refusal([&] { return std::uint64_t{file.require_bool(key)}; }) +
         value_or_refusal([&] { return sum_of(file.require_string(key)); }) + value_or_refusal([&] { return sum_of_strings(file, key); }) +
         value_or_refusal([&] { return sum_of_ints(file, key); }) + value_or_refusal([&] { return sum_of_floats(file, key); });
}

std::uint64_t walk_key(const gguf::File& file, std::string_view key) {
  std::uint64_t sum = sum_of(key) + sum_of(gguf::name_of(*file.type_of(key))) + file.has(key);
  if (const auto shape = file.array_shape(key)) sum += shape->count + sum_of(gguf::name_of(shape->element));
  return sum + value_of(file, key);
}

}  // namespace

std::uint64_t walk(const gguf::File& file) {
  std::uint64_t sum = sum_of(file.name()) + file.version() + file.file_bytes();
  for (std::uint32_t i = 0; i < file.shard_count(); ++i) sum += sum_of(file.shard_name(i));
  for (const std::string_view key : file.keys()) sum += walk_key(file, key);
  if (!file.keys().empty()) sum += every_getter(file, file.keys().front());
  sum += every_getter(file, "no such key");
  sum += value_or_refusal([&] { return file.require_tensor("no such tensor").bytes; });
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    sum += sum_of(tensor.name) + sum_of(gguf::type_name(tensor.dtype)) + tensor.elements();
    sum += file.require_tensor(tensor.name).bytes + sum_of(file.bad_tensor(tensor.name, "").what());
    for (const std::byte byte : file.data(tensor)) sum += std::to_integer<std::uint64_t>(byte);
    file.drop_pages(tensor);
  }
  return sum;
}

}  // namespace quern::test
