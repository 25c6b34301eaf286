// What a model will need, before it is loaded.
#pragma once

#include "model.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// The numbers that give a llama-like model's size.
struct ShapeNumbers {
  std::uint64_t hidden = 0, feed_forward = 0, layers = 0, vocabulary = 0, heads = 0, kv_heads = 0, head_size = 0;
  bool tied = false;
};

struct FormatSize {
  std::string name;
  std::uint64_t bytes = 0;
  bool available = true;
};

struct Estimate {
  std::uint64_t parameters = 0, context = 0;
  std::uint64_t weights_bytes = 0, kv_bytes = 0, kv_bytes_f16 = 0, kv_bytes_f32 = 0;
  std::uint64_t scratch_bytes = 0, overhead_bytes = 0, adapter_bytes = 0, available_bytes = 0;
  bool scratch_known = false;
  std::vector<FormatSize> formats;

  std::uint64_t total() const { return weights_bytes + kv_bytes + scratch_bytes + overhead_bytes + adapter_bytes; }
  bool fits() const { return available_bytes == 0 || total() <= available_bytes; }
};

/// Throws Error(QUERN_INVALID_ARGUMENT) for a zero, heads that do not divide, or a product above 2^63.
Estimate estimate_shape(const ShapeNumbers& shape, std::uint64_t context, std::uint32_t sequences, quern_dtype kv_dtype);
/// Reads the header of a file; with a runtime, compiles the step to know scratch exactly.
Estimate estimate_file(Runtime* runtime, const std::string& path, const ModelOptions& options);

}  // namespace quern::runtime
