// See tensor.hpp.
#include "tensor.hpp"

#include <charconv>

namespace quern::cuda {
namespace {

constexpr std::uint64_t plane_alignment = 256;
constexpr std::string_view prefix = "cuda.planes.";

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + plane_alignment - 1) / plane_alignment * plane_alignment; }

std::string_view format_name(quern_dtype dtype) {
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return sdk::view(format.name);
  return {};
}

}  // namespace

Pieces pieces_of(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_F32: return {64, 16, {0}, {64}};
    case QUERN_F16: case QUERN_BF16: return {32, 16, {0}, {32}};
    case QUERN_Q4_0: return {18, 32, {0, 2}, {2, 16}};
    case QUERN_Q4_1: return {20, 32, {0, 4}, {4, 16}};
    case QUERN_Q5_0: return {22, 32, {0, 6, 2}, {2, 16, 4}};
    case QUERN_Q5_1: return {24, 32, {0, 8, 4}, {4, 16, 4}};
    case QUERN_Q8_0: return {34, 32, {0, 2}, {2, 32}};
    case QUERN_Q4_K: return {144, 256, {0, 16}, {16, 128}};
    case QUERN_Q5_K: return {176, 256, {0, 48, 16}, {16, 128, 32}};
    case QUERN_Q6_K: return {210, 256, {208, 0, 128, 192}, {2, 128, 64, 16}};
    default: return {};
  }
}

bool wants_planes(quern_dtype dtype) { return is_block(dtype) && dtype != QUERN_Q4_K && dtype != QUERN_Q5_K; }

WeightLayout parse_layout(std::string_view key) {
  if (key.substr(0, prefix.size()) != prefix) return {};
  key.remove_prefix(prefix.size());
  const std::size_t dot = key.find('.'), cross = key.find('x', dot == std::string_view::npos ? 0 : dot);
  if (dot == std::string_view::npos || cross == std::string_view::npos) return {};
  WeightLayout layout;
  layout.planes = true;
  const auto number = [](std::string_view text, std::int64_t& to) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), to);
    return result.ec == std::errc() && result.ptr == text.data() + text.size() && to > 0;
  };
  if (!number(key.substr(dot + 1, cross - dot - 1), layout.rows) || !number(key.substr(cross + 1), layout.k)) return {};
  for (const quern_format& format : quern_formats)
    if (sdk::view(format.name) == key.substr(0, dot)) layout.dtype = format.id;
  return layout;
}

std::string layout_key(const WeightLayout& layout) {
  return concat(std::string(prefix), std::string(format_name(layout.dtype)), ".", layout.rows, "x", layout.k);
}

std::uint64_t layout_bytes(const WeightLayout& layout) {
  const Pieces pieces = pieces_of(layout.dtype);
  const auto blocks = static_cast<std::uint64_t>(layout.rows * (layout.k / pieces.elements));
  std::uint64_t bytes = 0;
  for (const int piece : pieces.bytes) bytes += round_up(blocks * static_cast<std::uint64_t>(piece));
  return bytes;
}

std::int64_t Tensor::elements() const noexcept {
  std::int64_t n = 1;
  for (std::uint32_t d = 0; d < rank; ++d) n *= dims[d];
  return n;
}

std::int64_t Tensor::rows() const noexcept {
  std::int64_t n = 1;
  for (std::uint32_t d = 0; d + 1 < rank; ++d) n *= dims[d];
  return n;
}

bool Tensor::contiguous() const {
  if (elements() == 0) return true;  // whatever the strides are, no element lies off its place
  const sdk::ElementSize size = sdk::element_size(dtype);
  std::int64_t step = static_cast<std::int64_t>(size.bytes);
  for (std::uint32_t d = rank; d-- > 0;) {
    const std::int64_t n = d + 1 == rank ? dims[d] / static_cast<std::int64_t>(size.elements) : dims[d];
    if (n > 1 && strides[d] != step) return false;
    step *= n;
  }
  return true;
}

bool is_float(quern_dtype dtype) noexcept { return dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16; }
bool is_block(quern_dtype dtype) noexcept { return dtype >= QUERN_Q4_0 && dtype <= QUERN_Q6_K && pieces_of(dtype).elements >= 32; }

std::string describe(const Tensor& tensor) {
  std::string text = concat("'", tensor.name, "' [");
  for (std::uint32_t d = 0; d < tensor.rank; ++d)
    text += concat(d == 0 ? "" : ", ", (tensor.ranged >> d & 1u) != 0 ? "up to " : "", tensor.dims[d]);
  return text + concat("] of element type ", tensor.dtype);
}

View view_of(const Tensor& tensor) noexcept {
  View view{};
  view.data = tensor.data;
  view.dtype = static_cast<int>(tensor.dtype);
  view.rank = static_cast<int>(tensor.rank);
  for (std::uint32_t d = 0; d < QUERN_MAX_DIMS; ++d) {
    view.dims[d] = d < tensor.rank ? tensor.dims[d] : 1;
    view.strides[d] = d < tensor.rank ? tensor.strides[d] : 0;
  }
  return view;
}

Blocks blocks_of(const Tensor& tensor) noexcept {
  const Pieces pieces = pieces_of(tensor.dtype);
  Blocks blocks{};
  blocks.dtype = static_cast<int>(tensor.dtype);
  Address plane = tensor.data;
  const auto count = static_cast<std::uint64_t>(tensor.elements() / pieces.elements);
  for (int p = 0; p < 4; ++p) {
    blocks.plane[p] = tensor.planes ? plane : tensor.data + static_cast<Address>(pieces.offset[p]);
    blocks.stride[p] = tensor.planes ? pieces.bytes[p] : pieces.block_bytes;
    plane += round_up(count * static_cast<std::uint64_t>(pieces.bytes[p]));
  }
  blocks.aligned = tensor.planes || !wants_planes(tensor.dtype) ? 1 : 0;
  return blocks;
}

}  // namespace quern::cuda
