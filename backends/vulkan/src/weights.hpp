// Weights in planes (shaders/planes.glsl): which constants are packed so, and packing them on the device.
#pragma once

#include "gpu.hpp"
#include "op.hpp"

#include <array>
#include <deque>
#include <memory>

namespace quern::vulkan {

/// Whether matrices of a format gain by planes: those whose blocks are no multiple of 16 bytes.
bool wants_planes(quern_dtype dtype) noexcept;
/// Where the planes of a packed matrix begin: scales and minima, codes, high bits, scales of sub-blocks. Each is at a multiple of 256.
std::array<std::uint64_t, 4> plane_offsets(quern_dtype dtype, std::int64_t rows, std::int64_t k);
/// Bytes of a packed matrix under this key, or 0 where it is no key of this plugin for it.
std::uint64_t packed_bytes(std::string_view key, quern_dtype dtype, std::int64_t rows, std::int64_t k);

/// What weights_plan returned: the host reads `items` until it releases them.
struct WeightList {
  std::vector<quern_weight_item> items;
  std::deque<std::string> keys;
  std::deque<std::vector<quern_weight_source>> sources;
};
/// One item for each constant matrix that gains by planes and is read by matmul, as weights with int8 activations, and by get_rows, and in
/// no other way. Constants of several graphs with one name, format and shape share an item.
std::unique_ptr<WeightList> plan_weights(const std::vector<std::unique_ptr<sdk::ResolvedGraph>>& graphs);

/// Packs a canonical matrix at address `from` into `to_bytes` of `target`. Throws Failure for a key that is none of ours, or for too few bytes.
void pack_weight(std::string_view key, std::uint64_t from, std::uint64_t from_bytes, Memory& target, std::uint64_t offset, std::uint64_t to_bytes, Gpu& gpu);

}  // namespace quern::vulkan
