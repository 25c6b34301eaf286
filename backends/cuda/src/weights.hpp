// Weight sets: which constants are packed into planes, and packing them on the device.
#pragma once

#include "plan.hpp"

#include <memory>
#include <span>

namespace quern::cuda {

/// What weights_plan returned: the host reads `items` until it releases them.
struct WeightList {
  std::vector<quern_weight_item> items;
  std::deque<std::string> keys;
  std::deque<std::vector<quern_weight_source>> sources;
};

/// One item for each constant matrix of a format that gains by planes, and that only matmul (as weights) and get_rows read.
/// Constants of several graphs with one name, format and shape share an item.
std::unique_ptr<WeightList> plan_weights(const std::vector<std::unique_ptr<Graph>>& graphs);

/// Packs a canonical matrix, both in device memory. Throws Failure for spans that do not fit the key.
void pack_weight(std::string_view key, const quern_array& sources, const quern_array& destination, Gpu& gpu);

}  // namespace quern::cuda
