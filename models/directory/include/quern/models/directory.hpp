// Opens a model wherever it lies: a GGUF file, or a directory as Hugging Face's hub has them.
//
// A directory is presented as the keys and tensors that a GGUF file of the same model has, so that no later part knows the difference.
// Which names and numbers become which is data (src/families.cpp, src/tensor_names.cpp). Nothing is copied: shards are mapped. Some
// tensors lie otherwise (rows of q and k, norms in 16 bits). They are changed when they are read, one at a time.
#pragma once

#include "quern/models/gguf.hpp"

#include <string>

namespace quern::models {

/// Whether open_model() takes it for a directory with a model: it has config.json, and is no adapter's.
bool is_model_directory(const std::string& path);

/// Throws Error: of a file what gguf::File::open throws. Of a directory:
///   QUERN_NOT_FOUND    no model is in it
///   QUERN_BAD_MODEL    it is malformed; names file and field or tensor
///   QUERN_UNSUPPORTED  it is sound and not read here; says what to do instead
gguf::File open_model(const std::string& path);

}  // namespace quern::models
