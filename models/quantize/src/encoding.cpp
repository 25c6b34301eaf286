// See encoding.hpp.
#include "quern/models/encoding.hpp"

#include "fits.hpp"
#include "scaled_weights.hpp"

#include "quern/models/floats.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::quantize {
namespace {

void encode_block(const BlockLayout& layout, const float* x, const float* weights, std::byte* out) {
  float scaled[most_elements];
  scale_weights(weights, layout.elements(), layout.group(), scaled);
  for (int i = 0; i < layout.elements(); ++i)
    if (!std::isfinite(x[i])) throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", x[i], " has no place in a block format"));
  Block rounded, fitted;
  fits().round_block(layout, x, rounded);
  if (!std::isfinite(rounded.scale) || !std::isfinite(rounded.minimum))
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("a block with the number ",
                       *std::max_element(x, x + layout.elements(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }),
                       " has a scale beyond the largest of f16; use bf16 or f32"));
  fits().fit_block(layout, x, scaled, fitted);
  const bool better = error_of(layout, fitted, x, scaled) < error_of(layout, rounded, x, scaled);
  layout.pack(better ? fitted : rounded, out);
}

}  // namespace

std::uint64_t block_elements(quern_dtype dtype) {
  if (models::float_bytes(dtype) != 0) return 1;
  const BlockLayout* layout = BlockLayout::find(dtype);
  return layout == nullptr ? 0 : static_cast<std::uint64_t>(layout->elements());
}

std::uint64_t encoded_bytes(quern_dtype dtype, std::uint64_t elements) {
  const BlockLayout* layout = BlockLayout::find(dtype);
  return layout == nullptr ? elements * models::float_bytes(dtype)
                           : elements / static_cast<std::uint64_t>(layout->elements()) * layout->bytes();
}

void encode_rows(quern_dtype dtype, std::span<const float> rows, std::span<const float> weights, std::span<std::byte> out) {
  const std::uint64_t block = block_elements(dtype);
  if (block == 0 || weights.empty() || rows.size() % weights.size() != 0 || weights.size() % block != 0 ||
      out.size() != encoded_bytes(dtype, rows.size()))
    throw Error(QUERN_INVALID_ARGUMENT, concat(rows.size(), " numbers in rows of ", weights.size(), " do not fill ", out.size(),
                                               " bytes of type ", dtype, " in blocks of ", block));
  const BlockLayout* layout = BlockLayout::find(dtype);
  if (layout == nullptr) {
    const std::vector<std::byte> bytes = models::encode_floats(dtype, rows);
    std::ranges::copy(bytes, out.begin());
    return;
  }
  if (!layout->can_pack()) throw Error(QUERN_INVALID_ARGUMENT, concat("blocks of type ", dtype, " are read, and none are made"));
  for (std::size_t at = 0; at < rows.size(); at += block)
    encode_block(*layout, rows.data() + at, weights.data() + at % weights.size(), out.data() + at / block * layout->bytes());
}

void decode(quern_dtype dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const std::uint64_t block = block_elements(dtype);
  if (block == 0 || out.size() % block != 0 || bytes.size() != encoded_bytes(dtype, out.size()))
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(bytes.size(), " bytes of type ", dtype, " in blocks of ", block, " are not ", out.size(), " numbers"));
  const BlockLayout* layout = BlockLayout::find(dtype);
  if (layout == nullptr) {
    std::ranges::copy(models::decode_floats(dtype, bytes), out.begin());
    return;
  }
  Block numbers;
  for (std::size_t at = 0; at < out.size(); at += block) {
    layout->unpack(bytes.data() + at / block * layout->bytes(), numbers);
    values_of(*layout, numbers, out.data() + at);
  }
}

}  // namespace quern::quantize
