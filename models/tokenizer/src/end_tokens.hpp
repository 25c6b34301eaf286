// Which tokens end an answer.
#pragma once

#include "vocabulary.hpp"

#include <cstdint>
#include <vector>

namespace quern::tokenizer {

/// The file's eos, eot and eom, and control tokens whose name is known to end a turn or a text. Ascending.
std::vector<std::int32_t> find_end_tokens(const Vocabulary& vocabulary);

}  // namespace quern::tokenizer
