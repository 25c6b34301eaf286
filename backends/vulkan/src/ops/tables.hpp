// The rows of all op files: QUERN_VULKAN_OP(op), which the build lists in vulkan_op_tables.def.
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

#define QUERN_VULKAN_OP(name) extern const Op name##_op;
#include "vulkan_op_tables.def"
#undef QUERN_VULKAN_OP

}  // namespace quern::vulkan
