// Caches of pages, as ops see them.
#pragma once

#include "../op.hpp"

#include <initializer_list>

namespace quern::vulkan {

/// The indices into a cache are packed, and so is the vector of a slot.
std::string check_pages(const Tensor& cache, std::initializer_list<const Tensor*> indices);
/// The same, of an op that has the cache as input and output.
std::string check_caches(const Call& call, std::initializer_list<const Tensor*> indices);
KvParams cache_params(const Tensor& cache, const Tensor& block_table, Launcher& launcher);

}  // namespace quern::vulkan
