// See slot.hpp.
#include "slot.hpp"

#include "data/float_codes.hpp"

#include <cstring>

namespace quern::mutant {
namespace {

template <class T>
T load(const std::byte* at) noexcept {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}
template <class T>
void store(std::byte* at, T x) noexcept {
  std::memcpy(at, &x, sizeof x);
}

}  // namespace

Slot::Slot(const quern_value& value, std::byte* data) : value_(value) {
  if (data == nullptr || (value.uses & QUERN_VALUE_USES_SYMBOLS) != 0 || value.rank > QUERN_MAX_DIMS) return;
  const sdk::ElementSize size = sdk::element_size(value.dtype);
  unit_elements_ = static_cast<std::int64_t>(size.elements);
  unit_bytes_ = size.bytes;
  if (value_.rank > 0) value_.dims[value_.rank - 1] /= unit_elements_;
  std::int64_t step = static_cast<std::int64_t>(unit_bytes_), count = 1;
  for (std::uint32_t d = value_.rank; d-- > 0;) {
    strides_[d] = (value.uses & QUERN_VALUE_USES_STRIDES) != 0 ? value.strides[d] : step;
    step *= value_.dims[d];
    count *= value_.dims[d];
  }
  if (count == 0) return;
  data_ = data;
  count_ = count;
  bytes_ = unit_bytes_;
  for (std::uint32_t d = 0; d < value_.rank; ++d) bytes_ += static_cast<std::uint64_t>((value_.dims[d] - 1) * strides_[d]);
}

std::byte* Slot::at(std::int64_t i) const noexcept {
  std::byte* place = data_;
  for (std::uint32_t d = value_.rank; d-- > 0;) {
    place += i % value_.dims[d] * strides_[d];
    i /= value_.dims[d];
  }
  return place;
}

double Slot::get(std::int64_t i) const noexcept {
  const std::byte* place = at(i);
  switch (value_.dtype) {
    case QUERN_F32: return static_cast<double>(load<float>(place));
    case QUERN_F16: return conformance::f16_value(load<std::uint16_t>(place));
    case QUERN_BF16: return conformance::bf16_value(load<std::uint16_t>(place));
    case QUERN_I32: return load<std::int32_t>(place);
    case QUERN_U32: return load<std::uint32_t>(place);
    case QUERN_I64: return static_cast<double>(load<std::int64_t>(place));
    case QUERN_U8: return load<std::uint8_t>(place);
    default: return 0;
  }
}

void Slot::set(std::int64_t i, double x) const noexcept {
  std::byte* place = at(i);
  switch (value_.dtype) {
    case QUERN_F32: return store(place, static_cast<float>(x));
    case QUERN_F16: return store(place, conformance::f16_bits(x));
    case QUERN_BF16: return store(place, conformance::bf16_bits(x));
    case QUERN_I32: return store(place, static_cast<std::int32_t>(x));
    case QUERN_U32: return store(place, static_cast<std::uint32_t>(x));
    case QUERN_I64: return store(place, static_cast<std::int64_t>(x));
    case QUERN_U8: return store(place, static_cast<std::uint8_t>(x));
    default: return;
  }
}

}  // namespace quern::mutant
