#include "dtypes.hpp"

namespace quern::safetensors {
namespace {

struct Row {
  std::string_view name;
  unsigned bits;
};

// By the numbers of Dtype.
constexpr Row rows[] = {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
                        {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
                        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64}};
static_assert(std::size(rows) == static_cast<std::size_t>(Dtype::u64) + 1);

const Row& row_of(Dtype dtype) noexcept { return rows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name_of(Dtype dtype) noexcept { return row_of(dtype).name; }
unsigned bits_of(Dtype dtype) noexcept { return row_of(dtype).bits; }

quern_dtype float_type(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::f32: return QUERN_F32;
    case Dtype::f16: return QUERN_F16;
    case Dtype::bf16: return QUERN_BF16;
    default: return QUERN_DTYPE_NONE;
  }
}

std::optional<Dtype> from_float_type(quern_dtype dtype) noexcept {
  for (const Dtype one : {Dtype::f32, Dtype::f16, Dtype::bf16})
    if (float_type(one) == dtype) return one;
  return std::nullopt;
}

std::optional<Dtype> find_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(rows); ++i)
    if (rows[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) noexcept {
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::uint64_t size : shape) {
    if (size == 0) empty = true;
    else if (size > most_elements / count) return std::nullopt;
    else count *= size;
  }
  return empty ? 0 : count;
}

std::optional<std::uint64_t> byte_count(Dtype dtype, std::span<const std::uint64_t> shape) noexcept {
  const std::optional<std::uint64_t> elements = element_count(shape);
  if (!elements) return std::nullopt;
  const std::uint64_t bits = *elements * bits_of(dtype);  // at most 2^56 * 2^6
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::uint64_t TensorInfo::elements() const noexcept { return element_count(shape).value_or(0); }

}  // namespace quern::safetensors
