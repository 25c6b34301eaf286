// Weight sets: which constants of a model are packed, and packing them.
#pragma once

#include "graph.hpp"
#include "packed/registry.hpp"
#include "thread_pool.hpp"

#include "quern/quern_plugin_api.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace quern::cpu {

/// What weights_plan returned: the host reads `items` until it releases them.
struct WeightList {
  std::vector<quern_weight_item> items;
  std::vector<std::string> keys;  // of the items, whose strings point here
  std::vector<std::vector<quern_weight_source>> sources;
};

/// One item for each constant matrix that only matmuls (as weights, not transposed) and perhaps get_rows read, and for each constant of experts
/// that only matmul_ids read, where a layout of `set` takes it and each product allows what the layout does to activations. Constants of several graphs with one name, format and
/// shape share an item; where one graph's use forbids packing, none of them is packed.
std::unique_ptr<WeightList> plan_weights(std::span<const Graph> graphs, const PackedSet& set);

/// Packs a canonical matrix, or experts. Throws Error(INVALID_ARGUMENT) for spans that do not fit the key.
void pack_weight(const std::string& key, const quern_array& sources, const quern_array& destination, ThreadPool& pool);

}  // namespace quern::cpu
