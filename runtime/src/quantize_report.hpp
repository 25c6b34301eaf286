// What quern_quantize() reports, whatever it wrote.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

struct QuantizedTensor {
  const gguf::TensorInfo* tensor = nullptr;
  quern_dtype dtype = QUERN_DTYPE_NONE, wanted = QUERN_DTYPE_NONE;  // wanted: before its rows turned out to be no whole blocks
  std::uint64_t bytes = 0;
  bool changes = false;  // it is decoded and encoded
};

/// JSON, on one line. `type` is what the user asked for.
std::string quantize_report(std::string_view type, const std::vector<QuantizedTensor>& tensors);

/// Throws Error(QUERN_INVALID_ARGUMENT) naming a tensor that lies in blocks and is to change.
void refuse_blocks(const gguf::File& file, const std::vector<QuantizedTensor>& tensors);

}  // namespace quern::runtime
