// See tensor.hpp.
#include "data/tensor.hpp"

#include "data/block_format.hpp"
#include "data/float_codes.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace quern::conformance {
namespace {

template <class T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof value);
}

double load_plain(quern_dtype dtype, const std::byte* data, std::int64_t i) {
  switch (dtype) {
    case QUERN_F32: return static_cast<double>(load<float>(data + 4 * i));
    case QUERN_F16: return f16_value(load<std::uint16_t>(data + 2 * i));
    case QUERN_BF16: return bf16_value(load<std::uint16_t>(data + 2 * i));
    case QUERN_I32: return load<std::int32_t>(data + 4 * i);
    case QUERN_U32: return load<std::uint32_t>(data + 4 * i);
    case QUERN_I64: return static_cast<double>(load<std::int64_t>(data + 8 * i));
    case QUERN_U8: return static_cast<double>(load<std::uint8_t>(data + i));
    default: throw std::logic_error("element of " + dtype_name(dtype) + " read as a plain one");
  }
}

void store_plain(quern_dtype dtype, std::byte* data, std::int64_t i, double x) {
  switch (dtype) {
    case QUERN_F32: return store(data + 4 * i, static_cast<float>(x));
    case QUERN_F16: return store(data + 2 * i, f16_bits(x));
    case QUERN_BF16: return store(data + 2 * i, bf16_bits(x));
    case QUERN_I32: return store(data + 4 * i, static_cast<std::int32_t>(x));
    case QUERN_U32: return store(data + 4 * i, static_cast<std::uint32_t>(x));
    case QUERN_I64: return store(data + 8 * i, static_cast<std::int64_t>(x));
    case QUERN_U8: return store(data + i, static_cast<std::uint8_t>(x));
    default: throw std::logic_error("element of " + dtype_name(dtype) + " written as a plain one");
  }
}

}  // namespace

const quern_format* format_of(quern_dtype dtype) noexcept {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return &format;
  return nullptr;
}

Unit unit_of(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_F32:
    case QUERN_I32:
    case QUERN_U32: return {1, 4};
    case QUERN_F16:
    case QUERN_BF16: return {1, 2};
    case QUERN_I64: return {1, 8};
    case QUERN_U8: return {1, 1};
    default: break;
  }
  const quern_format* format = format_of(dtype);
  if (format == nullptr) throw std::logic_error("dtype " + std::to_string(dtype) + " is not known to the suite");
  return {format->block_elements, format->block_bytes};
}

std::string dtype_name(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_DTYPE_NONE: return "none";
    case QUERN_F32: return "f32";
    case QUERN_F16: return "f16";
    case QUERN_BF16: return "bf16";
    case QUERN_I32: return "i32";
    case QUERN_U32: return "u32";
    case QUERN_I64: return "i64";
    case QUERN_U8: return "u8";
    default: break;
  }
  const quern_format* format = format_of(dtype);
  return format == nullptr ? "dtype" + std::to_string(dtype) : std::string(format->name.data, format->name.size);
}

bool is_float(quern_dtype dtype) noexcept { return dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16; }

bool has_minimums(quern_dtype dtype) {
  const BlockFormat* format = BlockFormat::find(dtype);
  return format != nullptr && format->has_minimums();
}

bool decodes_exactly(quern_dtype dtype) {
  const BlockFormat* format = BlockFormat::find(dtype);
  return format == nullptr || !(format->has_minimums() || format->has_table());
}

std::int64_t element_count(const Dims& dims) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  return count;
}

std::uint64_t packed_bytes(quern_dtype dtype, const Dims& dims) {
  const Unit unit = unit_of(dtype);
  const std::int64_t count = element_count(dims);
  if (count % unit.elements != 0) throw std::logic_error("rows of " + dtype_name(dtype) + " that are no whole blocks");
  return static_cast<std::uint64_t>(count / unit.elements) * unit.bytes;
}

Tensor::Tensor(quern_dtype dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)), count_(element_count(dims_)) {
  const std::uint64_t size = packed_bytes(dtype, dims_);
  owner_ = std::make_shared<std::byte[]>(size);
  bytes_ = {owner_.get(), size};
}

Tensor::Tensor(quern_dtype dtype, Dims dims, std::span<std::byte> bytes)
    : dtype_(dtype), dims_(std::move(dims)), count_(element_count(dims_)), bytes_(bytes) {
  if (bytes.size() != packed_bytes(dtype_, dims_)) throw std::logic_error("a tensor's memory has another size than its dims");
}

double Tensor::at(std::int64_t i) const {
  double value = 0;
  read(i, 1, &value);
  return value;
}

void Tensor::read(std::int64_t first, std::int64_t count, double* out) const {
  if (const BlockFormat* format = BlockFormat::find(dtype_)) {
    format->read(bytes_.data(), first, count, out);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = load_plain(dtype_, bytes_.data(), first + i);
}

std::vector<double> Tensor::values() const {
  std::vector<double> all(static_cast<std::size_t>(count_));
  read(0, count_, all.data());
  return all;
}

void Tensor::read_sized(std::int64_t first, std::int64_t count, double* out, double* sizes) const {
  if (!has_minimums(dtype_)) {
    read(first, count, out);
    for (std::int64_t i = 0; i < count; ++i) sizes[i] = std::fabs(out[i]);
    return;
  }
  BlockFormat::find(dtype_)->read_parts(bytes_.data(), first, count, out, sizes);
  for (std::int64_t i = 0; i < count; ++i) {
    const double scaled = out[i], minimum = sizes[i];
    out[i] = scaled + minimum;
    sizes[i] = std::fabs(scaled) + std::fabs(minimum);
  }
}

void Tensor::set(std::int64_t i, double x) const { store_plain(dtype_, bytes_.data(), i, x); }

double Tensor::rounded(double x) const {
  std::byte place[8];
  store_plain(dtype_, place, 0, x);
  return load_plain(dtype_, place, 0);
}

}  // namespace quern::conformance
