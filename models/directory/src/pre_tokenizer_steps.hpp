// Which of the known rules a tokenizer.json cuts texts by.
#pragma once

#include "json_file.hpp"

#include <string_view>

namespace quern::directory {

/// The name for tokenizer.ggml.pre, from `normalizer`, `pre_tokenizer` and `model.ignore_merges` of byte-level BPE. Throws
/// Error(QUERN_UNSUPPORTED) naming the part that no rule has, Error(QUERN_BAD_MODEL) for what is malformed.
std::string_view pre_tokenizer_of(const JsonFile& tokenizer);

}  // namespace quern::directory
