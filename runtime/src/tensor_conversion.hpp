// Tensors of a file in another type: whole numbers on the host, blocks decoded on the devices.
#pragma once

#include "memory.hpp"

#include "quern/models/gguf.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace quern::runtime {

/// Takes the next bytes of a tensor.
using TakeBytes = std::function<void(std::span<const std::byte>)>;

/// Gives a tensor's bytes in the type `to`, piece by piece: as they are where it has that type, else rounded to nearest. `to` is then f32,
/// f16 or bf16. Of another type at most `piece` numbers, or a row, are decoded at a time. Throws Error: QUERN_INVALID_ARGUMENT naming the tensor for a finite
/// number that `to` does not hold, QUERN_UNSUPPORTED where no device decodes the type.
void convert_tensor(const std::vector<std::shared_ptr<MemoryBudget>>& devices, const gguf::File& file, const gguf::TensorInfo& tensor,
                    quern_dtype to, const TakeBytes& take, std::uint64_t piece = 16 << 20);

/// Whether a type of f32, f16 and bf16 holds each of the numbers.
bool holds_all(quern_dtype dtype, std::span<const float> numbers);

}  // namespace quern::runtime
