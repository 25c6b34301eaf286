// Writes a model as a directory that transformers opens: what directory.hpp reads, the other way round.
//
// Names of tensors, the order of rows, fields of rotations and rules of cutting come from the tables that the reader has.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::models {

/// Quantised directories that are written, in the forms that transformers and packers read.
enum class PackedKind : std::uint8_t {
  awq,         ///< "awq", version gemm: integers of four bits with zero points
  integers,    ///< "compressed-tensors", pack-quantized: integers of four bits without
  fp8_blocks,  ///< "fp8": E4M3 with a scale for 128 x 128 numbers, as DeepSeek's and Qwen's
  fp8_rows     ///< "compressed-tensors", float-quantized: E4M3 with a scale for each row
};

/// Rows and columns of a block of PackedKind::fp8_blocks.
inline constexpr std::uint64_t fp8_block = 128;

/// A matrix as codes of a byte each, row by row. Scales and zero points lie as the kind has them: [rows, columns / group], [rows], or
/// [rows / 128, columns / 128]. Zero points are those of PackedKind::awq.
struct WeightCodes {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales;
};

/// Of the tensors in a file, where nobody asks for another size.
inline constexpr std::uint64_t usual_shard_bytes = 5'000'000'000;

/// Which weights are stored as codes, and how they are made.
struct PackedForm {
  PackedKind kind = PackedKind::awq;
  std::uint64_t group = 0;        // of the kinds with integers
  quern_dtype scale = QUERN_F16;  // f16 or bf16; blocks of fp8 have f32
  /// Rows are a multiple of 8, and columns whole groups. Both are whole blocks of PackedKind::fp8_blocks: transformers decodes no others.
  std::function<bool(const gguf::TensorInfo&)> takes;
  /// Of the numbers in the order of the directory's rows.
  std::function<WeightCodes(const gguf::TensorInfo&, std::span<const float>)> encode;
};

/// Bytes of a weight that is stored as codes.
std::uint64_t packed_weight_bytes(const PackedForm& form, std::uint64_t rows, std::uint64_t columns);

/// How the tensors are stored.
struct DirectoryForm {
  using TakeBytes = std::function<void(std::span<const std::byte>)>;

  quern_dtype dtype = QUERN_BF16;  // that config.json states
  std::uint64_t shard_bytes = 0;   // of tensors in a file, at most, unless one alone has more
  /// f32, f16 or bf16.
  std::function<quern_dtype(const gguf::TensorInfo&)> type;
  /// Gives a tensor's bytes in that type, in the order of the GGUF file's rows, piece by piece.
  std::function<void(const gguf::TensorInfo&, quern_dtype, const TakeBytes&)> give;
  std::optional<PackedForm> packed;  // of a quantised directory; give() is then asked for f32 where it takes a weight
};

/// Makes the folder `folder`, which must not be there, with safetensors files, config.json, generation_config.json, tokenizer.json,
/// tokenizer_config.json, the chat template and a README.md where the model has what belongs there. It is written aside and takes its name
/// when it is whole. Throws Error: QUERN_BAD_MODEL for a malformed model, QUERN_UNSUPPORTED for one that no directory of its family holds,
/// QUERN_IO and QUERN_PERMISSION.
void write_directory(const gguf::File& model, const std::string& folder, const DirectoryForm& form);

}  // namespace quern::models
