// The tables of ops, one a file: QUERN_VULKAN_OPS(family), which the build lists in vulkan_op_tables.def.
#pragma once

#include "../op.hpp"
#include "../views.hpp"

namespace quern::vulkan {

#define QUERN_VULKAN_OPS(family) extern const std::span<const Op> family##_ops;
#include "vulkan_op_tables.def"
#undef QUERN_VULKAN_OPS

}  // namespace quern::vulkan
