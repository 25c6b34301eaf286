// A model in another form: a GGUF file of a Hugging Face directory, a directory of a GGUF file, or either in another type.
#pragma once

#include "runtime.hpp"

#include <cstdint>
#include <string>

namespace quern::runtime {

struct ConvertOptions {
  /// Of the matrices: f32, f16 or bf16. QUERN_DTYPE_NONE keeps theirs; those of block formats become bf16 in a directory.
  quern_dtype type = QUERN_DTYPE_NONE;
  bool vocabulary_only = false;   // a GGUF file without tensors
  std::uint64_t shard_bytes = 0;  // of each file's tensors, at most; 0: 5 GB in a directory, and a GGUF file is not split
};

/// `to` is a GGUF file where it ends with ".gguf", else a folder. Nothing may be there. One tensor at a time is in memory, and what is
/// written takes its name when it is whole. Throws Error: what reading and writing throw; QUERN_IO for a place that is taken;
/// QUERN_INVALID_ARGUMENT for options that do not fit and for a number that the type does not hold; QUERN_UNSUPPORTED for a model that no
/// directory is written of.
void convert(Runtime& runtime, const std::string& from, const std::string& to, const ConvertOptions& options);

}  // namespace quern::runtime
