// What lora_matmul and its gradient share; lora_matmul.cpp has it.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

std::string refuse_lora(const Call& call);
std::uint64_t scratch_lora(const Call& call);
void emit_lora_backward(const Call& call, Launcher& launcher);

}  // namespace quern::cuda
