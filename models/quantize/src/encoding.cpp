// See encoding.hpp.
#include "quern/models/encoding.hpp"

#include "fits.hpp"
#include "scaled_weights.hpp"

#include "quern/models/floats.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace quern::quantize {
namespace {

constexpr std::size_t blocks_at_once = 16;  // as many as the widest vectors have lanes

/// Blocks one after another.
void encode_blocks(const BlockLayout& layout, std::span<const FitItem> items, Block* blocks, std::byte* out) {
  fits().fit_blocks(layout, items, blocks);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!std::isfinite(blocks[i].scale) || !std::isfinite(blocks[i].minimum))
      throw Error(QUERN_INVALID_ARGUMENT, concat("a block with the number ",
                                                 *std::max_element(items[i].x, items[i].x + layout.elements(),
                                                                   [](float a, float b) { return std::fabs(a) < std::fabs(b); }),
                                                 " has a scale beyond the largest of f16; use bf16 or f32"));
    layout.pack(blocks[i], out + i * layout.bytes());
  }
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
  if (const auto bad = first_not_finite(rows); bad != rows.end())
    throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", *bad, " has no place in a block format"));
  const std::vector<float> scaled = scaled_weights(weights, block, static_cast<std::size_t>(layout->group()));
  std::vector<FitItem> items;
  items.reserve(rows.size() / block);
  for (std::size_t at = 0; at < rows.size(); at += block) items.push_back({rows.data() + at, scaled.data() + at % scaled.size()});
  const auto blocks = std::make_unique<std::array<Block, blocks_at_once>>();
  for (std::size_t first = 0; first < items.size(); first += blocks_at_once)
    encode_blocks(*layout, std::span(items).subspan(first, std::min(blocks_at_once, items.size() - first)), blocks->data(),
                  out.data() + first * layout->bytes());
}

void decode(quern_dtype dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const std::uint64_t block = block_elements(dtype);
  if (block == 0 || out.size() % block != 0 || bytes.size() != encoded_bytes(dtype, out.size()))
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(bytes.size(), " bytes of type ", dtype, " in blocks of ", block, " are not ", out.size(), " numbers"));
  const BlockLayout* layout = BlockLayout::find(dtype);
  if (layout == nullptr) {
    models::decode_floats(dtype, bytes, out);
    return;
  }
  Block numbers;
  for (std::size_t at = 0; at < out.size(); at += block) {
    layout->unpack(bytes.data() + at / block * layout->bytes(), numbers);
    values_of(*layout, numbers, out.data() + at);
  }
}

}  // namespace quern::quantize
