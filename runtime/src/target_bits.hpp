// Types of tensors by the errors that they leave, within a size.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/models/importance.hpp"
#include "quern/models/mix.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace quern::runtime {

/// The choices with other types for the free tensors: those of least total error within `bits` for a weight of the file. The error of a type
/// is measured on some rows and counts by the part of the model that the tensor is. The importance may be null. Nothing depends on threads.
/// Throws Error: QUERN_INVALID_ARGUMENT for fewer bits than the smallest types take, and what encoding throws.
std::vector<quantize::TensorChoice> choose_by_error(const gguf::File& file, const quantize::Importance* importance, double bits,
                                                    std::span<const quantize::TensorChoice> choices, std::uint32_t threads);

}  // namespace quern::runtime
