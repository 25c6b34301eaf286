// A model's weights as codes, in a directory as transformers and packers read them.
#pragma once

#include "quantize.hpp"

#include "quern/models/gguf.hpp"
#include "quern/models/importance.hpp"

namespace quern::runtime {

/// What quantize() does where options.to is not empty. The importance may be null. Throws Error as it does; QUERN_INVALID_ARGUMENT too for awq
/// without an importance matrix.
std::string quantize_to_directory(const gguf::File& file, const quantize::Importance* importance, const std::string& out,
                                  const QuantizeOptions& options);

}  // namespace quern::runtime
