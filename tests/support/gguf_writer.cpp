#include "gguf_writer.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace quern::test {
namespace {

using Bytes = GgufWriter::Bytes;
using gguf::ValueType;

constexpr std::uint32_t id_of(ValueType type) { return static_cast<std::uint32_t>(type); }

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

template <typename T>
Bytes elements_of(const std::vector<T>& values) {
  Bytes out;
  for (const T& value : values) append(out, bytes_of(value));
  return out;
}

void pad(Bytes& to, std::uint64_t alignment) {
  if (alignment > 1) to.resize((to.size() + alignment - 1) / alignment * alignment);
}

Bytes view_bytes(std::span<const std::byte> view) { return Bytes(view.begin(), view.end()); }

void copy_array(GgufWriter& writer, const gguf::File& file, std::string_view key, gguf::File::ArrayShape shape) {
  Bytes elements;
  if (shape.element == ValueType::string) {
    for (const std::string_view text : file.require_strings(key)) append(elements, string_bytes(text));
  } else if (shape.element == ValueType::f32) {
    const auto values = *file.find_floats(key);
    for (std::uint64_t i = 0; i < values.size(); ++i) append(elements, bytes_of(static_cast<float>(values[i])));
  } else if (shape.element == ValueType::f64) {
    const auto values = *file.find_floats(key);
    for (std::uint64_t i = 0; i < values.size(); ++i) append(elements, bytes_of(values[i]));
  } else {  // integers and booleans: the low bytes of the 64-bit value
    const auto values = *file.find_ints(key);
    std::size_t width = 8;
    if (shape.element == ValueType::boolean || shape.element <= ValueType::i8) width = 1;
    else if (shape.element <= ValueType::i16) width = 2;
    else if (shape.element <= ValueType::i32) width = 4;
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      Bytes value = bytes_of(values[i]);
      value.resize(width);
      append(elements, value);
    }
  }
  writer.raw_array(key, id_of(shape.element), shape.count, std::move(elements));
}

void copy_key(GgufWriter& writer, const gguf::File& file, std::string_view key) {
  switch (*file.type_of(key)) {
    case ValueType::u8: writer.u8(key, static_cast<std::uint8_t>(*file.find_u64(key))); break;
    case ValueType::i8: writer.i8(key, static_cast<std::int8_t>(*file.find_i64(key))); break;
    case ValueType::u16: writer.u16(key, static_cast<std::uint16_t>(*file.find_u64(key))); break;
    case ValueType::i16: writer.i16(key, static_cast<std::int16_t>(*file.find_i64(key))); break;
    case ValueType::u32: writer.u32(key, static_cast<std::uint32_t>(*file.find_u64(key))); break;
    case ValueType::i32: writer.i32(key, static_cast<std::int32_t>(*file.find_i64(key))); break;
    case ValueType::u64: writer.u64(key, *file.find_u64(key)); break;
    case ValueType::i64: writer.i64(key, *file.find_i64(key)); break;
    case ValueType::f32: writer.f32(key, static_cast<float>(*file.find_f64(key))); break;
    case ValueType::f64: writer.f64(key, *file.find_f64(key)); break;
    case ValueType::boolean: writer.boolean(key, *file.find_bool(key)); break;
    case ValueType::string: writer.string(key, *file.find_string(key)); break;
    case ValueType::array: copy_array(writer, file, key, *file.array_shape(key)); break;
  }
}

}  // namespace

GgufWriter GgufWriter::copy_of(const gguf::File& file) {
  GgufWriter writer;
  writer.version(file.version());
  for (const std::string_view key : file.keys()) copy_key(writer, file, key);
  writer.align_to(file.find_u64("general.alignment").value_or(32));
  for (const gguf::TensorInfo& info : file.tensors())
    writer.tensor(info.name, {info.dims, info.dims + info.n_dims}, info.ggml_type, view_bytes(file.data(info)));
  return writer;
}

GgufWriter& GgufWriter::raw(std::string_view key, std::uint32_t type, Bytes value) {
  const auto at = std::ranges::find(keys_, key, &Key::name);
  if (at != keys_.end()) {
    at->type = type;
    at->value = std::move(value);
  } else {
    keys_.push_back({std::string(key), type, std::move(value), std::nullopt});
  }
  return *this;
}

GgufWriter& GgufWriter::raw_array(std::string_view key, std::uint32_t element, std::uint64_t count, Bytes elements) {
  Bytes value = bytes_of(element);
  append(value, bytes_of(count));
  append(value, elements);
  return raw(key, id_of(ValueType::array), std::move(value));
}

GgufWriter& GgufWriter::u8(std::string_view k, std::uint8_t v) { return raw(k, id_of(ValueType::u8), bytes_of(v)); }
GgufWriter& GgufWriter::i8(std::string_view k, std::int8_t v) { return raw(k, id_of(ValueType::i8), bytes_of(v)); }
GgufWriter& GgufWriter::u16(std::string_view k, std::uint16_t v) { return raw(k, id_of(ValueType::u16), bytes_of(v)); }
GgufWriter& GgufWriter::i16(std::string_view k, std::int16_t v) { return raw(k, id_of(ValueType::i16), bytes_of(v)); }
GgufWriter& GgufWriter::u32(std::string_view k, std::uint32_t v) { return raw(k, id_of(ValueType::u32), bytes_of(v)); }
GgufWriter& GgufWriter::i32(std::string_view k, std::int32_t v) { return raw(k, id_of(ValueType::i32), bytes_of(v)); }
GgufWriter& GgufWriter::u64(std::string_view k, std::uint64_t v) { return raw(k, id_of(ValueType::u64), bytes_of(v)); }
GgufWriter& GgufWriter::i64(std::string_view k, std::int64_t v) { return raw(k, id_of(ValueType::i64), bytes_of(v)); }
GgufWriter& GgufWriter::f32(std::string_view k, float v) { return raw(k, id_of(ValueType::f32), bytes_of(v)); }
GgufWriter& GgufWriter::f64(std::string_view k, double v) { return raw(k, id_of(ValueType::f64), bytes_of(v)); }

GgufWriter& GgufWriter::boolean(std::string_view key, bool value) { return raw(key, id_of(ValueType::boolean), {std::byte{value}}); }

GgufWriter& GgufWriter::string(std::string_view key, std::string_view value) {
  return raw(key, id_of(ValueType::string), string_bytes(value));
}

GgufWriter& GgufWriter::strings(std::string_view key, const std::vector<std::string>& values) {
  Bytes elements;
  for (const std::string& value : values) append(elements, string_bytes(value));
  return raw_array(key, id_of(ValueType::string), values.size(), std::move(elements));
}

GgufWriter& GgufWriter::i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  return raw_array(key, id_of(ValueType::i32), values.size(), elements_of(values));
}

GgufWriter& GgufWriter::u32s(std::string_view key, const std::vector<std::uint32_t>& values) {
  return raw_array(key, id_of(ValueType::u32), values.size(), elements_of(values));
}

GgufWriter& GgufWriter::u64s(std::string_view key, const std::vector<std::uint64_t>& values) {
  return raw_array(key, id_of(ValueType::u64), values.size(), elements_of(values));
}

GgufWriter& GgufWriter::f32s(std::string_view key, const std::vector<float>& values) {
  return raw_array(key, id_of(ValueType::f32), values.size(), elements_of(values));
}

GgufWriter& GgufWriter::f64s(std::string_view key, const std::vector<double>& values) {
  return raw_array(key, id_of(ValueType::f64), values.size(), elements_of(values));
}

GgufWriter& GgufWriter::booleans(std::string_view key, const std::vector<std::uint8_t>& values) {
  return raw_array(key, id_of(ValueType::boolean), values.size(), elements_of(values));
}

GgufWriter& GgufWriter::remove(std::string_view key) {
  std::erase_if(keys_, [&](const Key& k) { return k.name == key; });
  return *this;
}

GgufWriter& GgufWriter::tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t ggml_type, Bytes data) {
  tensors_.push_back({std::string(name), std::move(dims), ggml_type, std::move(data), {}, {}, {}});
  return *this;
}

GgufWriter& GgufWriter::tensor_f32(std::string_view name, std::vector<std::uint64_t> dims, const std::vector<float>& values) {
  return tensor(name, std::move(dims), 0, elements_of(values));
}

GgufWriter& GgufWriter::remove_tensor(std::string_view name) {
  std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
  return *this;
}

GgufWriter::Key& GgufWriter::key(std::string_view name) {
  const auto at = std::ranges::find(keys_, name, &Key::name);
  if (at == keys_.end()) throw std::runtime_error("the test has no key " + std::string(name));
  return *at;
}

GgufWriter::Tensor& GgufWriter::tensor(std::string_view name) {
  const auto at = std::ranges::find(tensors_, name, &Tensor::name);
  if (at == tensors_.end()) throw std::runtime_error("the test has no tensor " + std::string(name));
  return *at;
}

Bytes GgufWriter::bytes() const {
  Bytes out;
  for (const char c : magic_) out.push_back(static_cast<std::byte>(c));
  append(out, bytes_of(version_));
  append(out, bytes_of(n_tensors_.value_or(tensors_.size())));
  append(out, bytes_of(n_keys_.value_or(keys_.size())));
  const auto named = [&](const std::string& name, std::optional<std::uint64_t> length) {
    append(out, bytes_of(length.value_or(name.size())));
    for (const char c : name) out.push_back(static_cast<std::byte>(c));
  };
  for (const Key& key : keys_) {
    named(key.name, key.name_length);
    append(out, bytes_of(key.type));
    append(out, key.value);
  }
  Bytes data;
  for (const Tensor& tensor : tensors_) {
    named(tensor.name, tensor.name_length);
    append(out, bytes_of(tensor.n_dims.value_or(static_cast<std::uint32_t>(tensor.dims.size()))));
    for (const std::uint64_t dim : tensor.dims) append(out, bytes_of(dim));
    append(out, bytes_of(tensor.type));
    pad(data, alignment_);
    append(out, bytes_of(tensor.offset.value_or(data.size())));
    append(data, tensor.data);
  }
  if (!tensors_.empty()) pad(out, alignment_);
  append(out, data);
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const { write_bytes(path, bytes()); }

Bytes string_bytes(std::string_view text) {
  Bytes out = bytes_of(static_cast<std::uint64_t>(text.size()));
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  return out;
}

void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in) throw std::runtime_error("cannot read " + path.string());
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(first, first + text.size());
}

}  // namespace quern::test
