// LoRA adapters as files: folders as peft writes them, and GGUF adapters as llama.cpp reads them.
//
// In memory an adapter has Hugging Face's row order, whatever file it comes from: A [rank, inputs] and B [outputs, rank], row-major f32, with
// y = W x + scale B A x. Readers trust nothing in a file. An adapter of which a part would not apply is refused: it must never pass as one
// that works. README.md has the rules of both formats.
#pragma once

#include "quern/graph/error.hpp"
#include "quern/models/architecture.hpp"
#include "quern/models/gguf.hpp"
#include "quern/quern_dtypes.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::peft {

/// The matrices of a layer that an adapter may change, in the order in which the trainer numbers them.
enum class Target : std::uint8_t { q, k, v, o, gate, up, down };
constexpr Target every_target[] = {Target::q, Target::k, Target::v, Target::o, Target::gate, Target::up, Target::down};

/// "q_proj", as target_modules has it.
std::string_view peft_name(Target target) noexcept;
/// "self_attn.q_proj", as it stands behind the layer's number in the name of a tensor.
std::string_view peft_module(Target target) noexcept;
/// "attn_q", as it stands between "blk.0." and ".weight".
std::string_view gguf_name(Target target) noexcept;
/// The target of a name as peft_name() gives it; nothing for any other.
std::optional<Target> find_target(std::string_view peft_name) noexcept;

struct AdapterMatrix {
  std::uint32_t layer = 0;
  Target target = Target::q;
  std::int64_t rank = 0, inputs = 0, outputs = 0;
  std::vector<float> a;              ///< [rank, inputs]
  std::vector<float> b;              ///< [outputs, rank]; rows of q and k in halves, whatever the file has
  std::optional<double> alpha = {};  ///< its own, where alpha_pattern has one

  std::string name() const;  ///< "layers.3.self_attn.q_proj"
};

struct Adapter {
  double alpha = 0;
  std::int64_t rank = 0;  ///< `r`; a matrix may have another one (rank_pattern)
  bool rslora = false;
  double dropout = 0;                   ///< of training; nothing depends on it here
  std::string base_model;               ///< base_model_name_or_path, or empty
  std::vector<AdapterMatrix> matrices;  ///< by layer and target, each once

  /// alpha / rank of the matrix, or alpha / sqrt(rank) with rslora.
  double scale(const AdapterMatrix& matrix) const noexcept;
  /// Null if there is none.
  const AdapterMatrix* find(std::uint32_t layer, Target target) const noexcept;
};

/// What of the base decides whether an adapter fits, and in which order its file has the rows of q and k.
struct BaseShape {
  std::string architecture;  ///< "llama"
  std::uint32_t layers = 0, heads = 0, kv_heads = 0;
  std::uint32_t head_size = 0;  ///< of queries and keys
  std::uint32_t width = 0, ffn = 0;
  std::uint32_t value_size = 0;  ///< of values; 0: head_size

  /// Columns and rows of the matrix that a target names.
  std::pair<std::int64_t, std::int64_t> inputs_and_outputs(Target target) const noexcept;
};

BaseShape base_shape(const models::Hyperparameters& model);
/// Throws as read_hyperparameters() does.
BaseShape base_shape(const gguf::File& model);

/// How the two elements of a rotary pair lie in the rows of q and k: element j of both halves of a head (Hugging Face), or side by side
/// (GGUF files of architecture llama).
enum class RowOrder : std::uint8_t { halves, interleaved };

/// The order that a GGUF file of this architecture has: interleaved for llama, halves for all others.
RowOrder gguf_row_order(std::string_view architecture) noexcept;

/// Rows of q or k, [heads * head size, columns], of which each is `columns` numbers (1 for a bias), brought from one order to the other.
/// Throws Error(QUERN_INVALID_ARGUMENT) where heads do not divide the rows into heads of an even size.
std::vector<float> reorder_rows(std::span<const float> rows, std::int64_t columns, std::int64_t heads, RowOrder from, RowOrder to);

/// Reads adapter_config.json and adapter_model.safetensors of a folder, of any peft since 0.4. Throws Error: QUERN_NOT_FOUND without the
/// files, QUERN_UNSUPPORTED for a setting that changes the result and that Quern lacks, by its key; QUERN_BAD_MODEL for all else: a file that
/// is malformed, a tensor without a matrix, a pair that is not whole, a rank that differs from the configuration.
Adapter read_folder(const std::string& folder);
/// The same from memory; `name` stands for the folder in errors.
Adapter read_memory(std::string_view config, std::span<const std::byte> tensors, const std::string& name);
/// The folder that a path means: the path itself where a folder is there, or the one that its adapter_model.safetensors lies in. Nothing for
/// any other.
std::optional<std::string> folder_of(const std::string& path);

/// Writes the two files as peft 0.21 does, makes the folder where it is missing, and replaces the files where they are there. `dtype` is
/// QUERN_F32, QUERN_F16 or QUERN_BF16. Throws Error(QUERN_INVALID_ARGUMENT) for an adapter whose sizes contradict each other or that has a
/// number beyond the type, Error(QUERN_IO or QUERN_PERMISSION) with the reason.
void write_folder(const Adapter& adapter, const std::string& folder, quern_dtype dtype = QUERN_F32);

/// Reads a GGUF adapter for `base`. The tensors are f32, f16, bf16 or Q8_0. The adapter's rslora is false: the file's alpha has it. Throws
/// Error(QUERN_BAD_MODEL) as read_folder does, also for an adapter of another architecture; Error(QUERN_UNSUPPORTED) for a kind that is not
/// LoRA. What does not fit `base` is for check_fits(), but heads that do not divide rows of q or k are refused here.
Adapter read_gguf(const gguf::File& file, const BaseShape& base);
Adapter read_gguf(const std::string& path, const BaseShape& base);
/// Whether a GGUF file is an adapter, and not a model.
bool is_adapter(const gguf::File& file);
/// As read_gguf() where no base is at hand, to show what a file has: B of q and k has its rows in the file's order.
Adapter describe_gguf(const gguf::File& file);

/// Writes a GGUF adapter for `base`, which it must fit (check_fits). The file has one alpha and no key for rsLoRA: alpha * sqrt(rank) is
/// written then. Matrices that would need different ones are refused with Error(QUERN_UNSUPPORTED). `name` becomes general.name unless it
/// is empty. Otherwise throws as write_folder does.
void write_gguf(const Adapter& adapter, const BaseShape& base, const std::string& path, quern_dtype dtype = QUERN_F32,
                std::string_view name = {});

/// Throws Error(QUERN_BAD_MODEL) unless each matrix of the adapter has one in the base with its inputs and outputs, each has both A and B
/// in full, and there is at least one. The text has both lists: what is without a matrix, and which pair is not whole.
void check_fits(const Adapter& adapter, const BaseShape& base);

}  // namespace quern::peft
