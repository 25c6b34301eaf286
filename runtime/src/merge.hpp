// Adapters into a base model, and from one kind of file into the other.
#pragma once

#include "adapters.hpp"
#include "runtime.hpp"

#include <string>
#include <utility>
#include <vector>

namespace quern::runtime {

struct MergeOptions {
  /// Of the matrices: QUERN_DTYPE_NONE makes adapted ones f16 and leaves the others. Vectors stay f32.
  quern_dtype type = QUERN_DTYPE_NONE;
  bool keep = false;  // each tensor in the base's own format
};

/// W + scale B A in f32 over the decoded weights of the base, encoded once, as a GGUF file with the base's metadata. Each adapter has a
/// factor beside its own scale. Work is done on the runtime's devices. Throws Error: what reading and writing throw,
/// QUERN_INVALID_ARGUMENT where the type has no whole blocks in a row, QUERN_UNSUPPORTED where no device encodes it.
void merge(Runtime& runtime, const std::string& base_path, const std::vector<std::pair<std::string, double>>& adapters,
           const MergeOptions& options, const std::string& out);

enum class AdapterFormat : std::uint8_t { peft, gguf };

/// Writes an adapter anew: a PEFT folder, or llama.cpp's GGUF adapter. `dtype` is f32, f16 or bf16.
void export_adapter(const std::string& adapter, const std::string& base_path, AdapterFormat format, quern_dtype dtype,
                    const std::string& out);

}  // namespace quern::runtime
