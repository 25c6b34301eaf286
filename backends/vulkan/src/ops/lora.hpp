// What adapters share.
#pragma once

#include "../op.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {

std::string check_adapters(const Call& call);
/// Bytes of the low-rank products of rows of n outputs, and why they cannot be counted.
std::uint64_t low_bytes(const Call& call, std::int64_t n);
std::string check_low(const Call& call, std::int64_t n);
View lora_view(const Tensor& t);
LoraParams lora_params(const Call& call, std::int64_t n, Launcher& launcher);
void launch_lora(const LoraParams& p, std::int64_t items, std::int32_t op, Launcher& launcher);
std::int64_t low_items(const LoraParams& p);

}  // namespace quern::vulkan
