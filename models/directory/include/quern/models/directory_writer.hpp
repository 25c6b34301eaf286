// Writes a model as a directory that transformers opens: what directory.hpp reads, the other way round.
//
// Names of tensors, the order of rows, fields of rotations and rules of cutting come from the tables that the reader has.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace quern::models {

/// How the tensors are stored.
struct DirectoryForm {
  using TakeBytes = std::function<void(std::span<const std::byte>)>;

  quern_dtype dtype = QUERN_BF16;  // that config.json states
  std::uint64_t shard_bytes = 0;   // of tensors in a file, at most, unless one alone has more
  /// f32, f16 or bf16.
  std::function<quern_dtype(const gguf::TensorInfo&)> type;
  /// Gives a tensor's bytes in that type, in the order of the GGUF file's rows, piece by piece.
  std::function<void(const gguf::TensorInfo&, quern_dtype, const TakeBytes&)> give;
};

/// Makes the folder `folder`, which must not be there, with safetensors files, config.json, generation_config.json, tokenizer.json,
/// tokenizer_config.json, the chat template and a README.md where the model has what belongs there. It is written aside and takes its name
/// when it is whole. Throws Error: QUERN_BAD_MODEL for a malformed model, QUERN_UNSUPPORTED for one that no directory of its family holds,
/// QUERN_IO and QUERN_PERMISSION.
void write_directory(const gguf::File& model, const std::string& folder, const DirectoryForm& form);

}  // namespace quern::models
