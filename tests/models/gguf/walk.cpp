#include "walk.hpp"

#include <bit>
#include <string>

namespace quern::test {
namespace {

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
  } catch (const Error& error) {
    return sum_of(error.what());
  }
}

std::uint64_t walk_key(const gguf::File& file, std::string_view key) {
  std::uint64_t sum = sum_of(key) + sum_of(gguf::name_of(*file.type_of(key)));
  if (const auto shape = file.array_shape(key)) sum += shape->count + sum_of(gguf::name_of(shape->element));
  sum += value_or_refusal([&] { return file.require_u64(key); });
  sum += value_or_refusal([&] { return static_cast<std::uint64_t>(file.require_i64(key)); });
  sum += value_or_refusal([&] { return std::bit_cast<std::uint64_t>(file.require_f64(key)); });
  sum += value_or_refusal([&] { return std::uint64_t{file.require_bool(key)}; });
  sum += value_or_refusal([&] { return sum_of(file.require_string(key)); });
  sum += value_or_refusal([&] {
    std::uint64_t all = 0;
    for (const std::string_view text : file.require_strings(key)) all += sum_of(text);
    return all + file.require_strings(key).to_vector().size();
  });
  sum += value_or_refusal([&] {
    std::uint64_t all = 0;
    for (const std::int64_t value : file.require_ints(key).to_vector()) all += static_cast<std::uint64_t>(value);
    return all;
  });
  sum += value_or_refusal([&] {
    std::uint64_t all = 0;
    for (const double value : file.require_floats(key).to_vector()) all += std::bit_cast<std::uint64_t>(value);
    return all;
  });
  return sum;
}

}  // namespace

std::uint64_t walk(const gguf::File& file) {
  std::uint64_t sum = sum_of(file.name()) + file.version() + file.file_bytes();
  for (std::uint32_t i = 0; i < file.shard_count(); ++i) sum += sum_of(file.shard_name(i));
  for (const std::string_view key : file.keys()) sum += walk_key(file, key);
  sum += value_or_refusal([&] { return file.require_u64("no such key"); });
  sum += value_or_refusal([&] { return file.require_tensor("no such tensor").bytes; });
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    sum += sum_of(tensor.name) + sum_of(gguf::ggml_type_name(tensor.ggml_type)) + tensor.elements();
    sum += file.require_tensor(tensor.name).bytes;
    for (const std::byte byte : file.data(tensor)) sum += std::to_integer<std::uint64_t>(byte);
    file.drop_pages(tensor);
  }
  return sum;
}

}  // namespace quern::test
