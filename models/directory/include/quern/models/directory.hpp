// Opens a model wherever it lies: a GGUF file, or a directory as Hugging Face's hub has them.
//
// A directory is presented as the keys and tensors that a GGUF file of the same model has, so that no later part knows the difference.
// Which names and numbers become which is data (src/families.cpp, src/tensor_names.cpp). Nothing is copied: shards are mapped, and a tensor
// that lies otherwise (rows of q and k, norms in 16 bits) is changed when it is read, one at a time.
#pragma once

#include "quern/models/gguf.hpp"

#include <string>

namespace quern::models {

/// Whether open_model() takes it for a directory with a model: it has config.json, and is no adapter's.
bool is_model_directory(const std::string& path);

/// Throws Error: what gguf::File::open throws; for a directory QUERN_NOT_FOUND (no model in it), QUERN_BAD_MODEL naming file and field or
/// tensor for what is malformed, QUERN_UNSUPPORTED for what is sound and not read here, with what to do instead.
gguf::File open_model(const std::string& path);

}  // namespace quern::models
