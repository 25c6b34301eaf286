// llama.cpp's importance matrices of before 2025: numbers one behind the other, without a mark at the start.
#pragma once

#include "quern/models/importance.hpp"

namespace quern::quantize {

/// Throws Error(QUERN_BAD_MODEL), and what reading files throws. Counts of such a file are chunks; here they become tokens.
Importance importance_of_dat(const std::string& path);

}  // namespace quern::quantize
