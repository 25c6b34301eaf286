// The good file from which the tests of the reader start.
#pragma once

#include "support/gguf_writer.hpp"

#include <filesystem>
#include <string>

namespace quern::test {

/// One key of every type, arrays of strings, integers, floats and booleans, and three tensors:
/// "token_embd.weight" F32 [4, 3] of 0, 1, 2, ..., "blk.0.ffn_up.weight" Q8_0 [32, 2] and
/// "output_norm.weight" F32 [4].
GgufWriter sample();

/// A path of the running test's own in a temporary directory that is removed when the process ends.
std::filesystem::path temporary(const std::string& file);

}  // namespace quern::test
