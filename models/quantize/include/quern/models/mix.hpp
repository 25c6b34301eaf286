// Which type each tensor of a quantised file gets: llama-quantize's mixes, so that files of one name hold the same types.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/models/text_pattern.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::quantize {

struct Mix {
  std::string_view name;    // "Q4_K_M"
  std::uint32_t file_type;  // general.file_type
  quern_dtype base;         // of tensors for which there is no rule
};

/// By its name, in capitals or not; "Q4_K" is Q4_K_M. Throws Error: QUERN_UNSUPPORTED for a mix of llama-quantize that Quern does not write,
/// QUERN_INVALID_ARGUMENT for any other name. Both list those that there are.
const Mix& mix_of(std::string_view name);

/// The first mix of this base. There is one for each type that is written.
const Mix& mix_with_base(quern_dtype base);

/// A type of tensors by its name, in capitals or not. Throws Error(QUERN_INVALID_ARGUMENT) with `what` in front.
quern_dtype tensor_type_of(std::string_view what, std::string_view name);

/// The number in "blk.3.", or nothing.
std::optional<std::uint64_t> layer_of(std::string_view name);

/// Tensors whose name has a match get this type.
struct TensorRule {
  tokenizer::TextPattern pattern;
  quern_dtype dtype;
};
/// "ffn_down=q6_k". Throws Error(QUERN_INVALID_ARGUMENT).
TensorRule tensor_rule(const std::string& text);

struct MixOptions {
  std::vector<TensorRule> rules = {};        // the first that matches counts
  quern_dtype output = QUERN_DTYPE_NONE;     // of the head
  quern_dtype embedding = QUERN_DTYPE_NONE;  // of the table of embeddings
  bool pure = false;                         // all tensors get the base type
  bool importance = false;                   // there is a matrix
};

struct TensorChoice {
  quern_dtype dtype = QUERN_DTYPE_NONE;
  quern_dtype wanted = QUERN_DTYPE_NONE;  // before its rows turned out to be no whole blocks of it; else the same
  bool free = false;                      // the tensor is quantised, and no option or rule says to what
};

/// For each tensor of the file, in its order. A tensor that is never quantised keeps its type.
std::vector<TensorChoice> choose_types(const gguf::File& file, const Mix& mix, const MixOptions& options);

}  // namespace quern::quantize
