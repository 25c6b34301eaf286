// Sets of characters that the PyPI package tokenizers takes otherwise than Unicode 16 does.
#pragma once

#include "char_set.hpp"

namespace quern::tokenizer {

#include "package_sets.inc"

}  // namespace quern::tokenizer
