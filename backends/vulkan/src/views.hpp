// Tensors as dispatches see them: neighbouring dims joined where all tensors allow it, cut where a dispatch would count beyond 2^31.
#pragma once

#include "op.hpp"

namespace quern::vulkan {

/// Calls `part(const Shape&, const View*)` for each dispatch over the dims of `dims`; the tensors broadcast to them, aligned at the last
/// dim. An absent tensor has a view of address 0. Strides count bytes of elements; of block formats, units are blocks: see in_units().
void for_each_part(const Tensor& dims, std::initializer_list<const Tensor*> tensors,
                   const std::function<void(const Shape&, const View*)>& part);

/// The same over all dims but the last; View::step is the last dim's stride.
void for_each_row_part(const Tensor& dims, std::initializer_list<const Tensor*> tensors,
                       const std::function<void(const Shape&, const View*)>& part);

/// A block tensor as one of units: its last dim counted in blocks.
Tensor in_units(const Tensor& tensor);

}  // namespace quern::vulkan
