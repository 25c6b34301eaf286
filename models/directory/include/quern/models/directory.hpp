// Opens a model wherever it lies: a GGUF file, or a directory as Hugging Face's hub has them.
//
// A directory is presented as the keys and tensors that a GGUF file of the same model has, so that no later part knows the difference.
// Which names and numbers become which is data (src/families.cpp, src/tensor_names.cpp). Nothing is copied: shards are mapped. Some
// tensors lie otherwise (rows of q and k, norms in 16 bits). They are changed when they are read, one at a time.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <string>

namespace quern::models {

/// Whether open_model() takes it for a directory with a model: it has config.json, and is no adapter's.
bool is_model_directory(const std::string& path);

/// How weights are read whose columns are in the order of their activations (`desc_act`), so that no block has the columns of a group.
enum class ActOrder : std::uint8_t {
  expanded,  ///< as numbers of 16 bits
  /// As blocks, with their columns by groups. A tensor "blk.0.attn_q.order" (i32) beside "blk.0.attn_q.weight" has for each column the
  /// element of the input that it multiplies: the index of `take`.
  by_groups
};

/// Throws Error: of a file what gguf::File::open throws. Of a directory:
///   QUERN_NOT_FOUND    no model is in it
///   QUERN_BAD_MODEL    it is malformed; names file and field or tensor
///   QUERN_UNSUPPORTED  it is sound and not read here; says what to do instead
gguf::File open_model(const std::string& path, ActOrder act_order = ActOrder::expanded);

}  // namespace quern::models
