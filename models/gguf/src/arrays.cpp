// Views of arrays where they lie in the file. The reader has checked their extent.
#include "cursor.hpp"
#include "value_types.hpp"

namespace quern::gguf {

std::string_view StringArray::iterator::operator*() const noexcept {
  const auto length = load<std::uint64_t>(at_);
  return {reinterpret_cast<const char*>(at_ + 8), static_cast<std::size_t>(length)};
}

StringArray::iterator& StringArray::iterator::operator++() noexcept {
  at_ += 8 + load<std::uint64_t>(at_);
  --left_;
  return *this;
}

std::vector<std::string_view> StringArray::to_vector() const {
  std::vector<std::string_view> views;
  views.reserve(count_);
  for (const std::string_view text : *this) views.push_back(text);
  return views;
}

std::int64_t IntArray::operator[](std::uint64_t index) const noexcept {
  const std::byte* at = first_ + index * fixed_size(type_);
  switch (type_) {
    case ValueType::u8:
    case ValueType::boolean: return load<std::uint8_t>(at);
    case ValueType::i8: return load<std::int8_t>(at);
    case ValueType::u16: return load<std::uint16_t>(at);
    case ValueType::i16: return load<std::int16_t>(at);
    case ValueType::u32: return load<std::uint32_t>(at);
    case ValueType::i32: return load<std::int32_t>(at);
    default: return load<std::int64_t>(at);
  }
}

std::vector<std::int64_t> IntArray::to_vector() const {
  std::vector<std::int64_t> values(count_);
  for (std::uint64_t i = 0; i < count_; ++i) values[i] = (*this)[i];
  return values;
}

double FloatArray::operator[](std::uint64_t index) const noexcept {
  const std::byte* at = first_ + index * fixed_size(type_);
  return type_ == ValueType::f32 ? static_cast<double>(load<float>(at)) : load<double>(at);
}

std::vector<double> FloatArray::to_vector() const {
  std::vector<double> values(count_);
  for (std::uint64_t i = 0; i < count_; ++i) values[i] = (*this)[i];
  return values;
}

}  // namespace quern::gguf
