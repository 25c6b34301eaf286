// The tokenizer of a GGUF file as tokenizer.json: what tokenizer_json.hpp reads, the other way round.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include <string>

namespace quern::directory {

/// Byte-level BPE with its merges, or SentencePiece's BPE with the merges that its scores give. Tokens of type unused are left out. Throws
/// Error(QUERN_UNSUPPORTED) for what tokenizer.json does not hold: two tokens of one text, text that is no UTF-8, equal scores. So it does
/// for a rule of cutting that has no steps here.
std::string tokenizer_text(const gguf::File& model, const Tokenizer& tokenizer);

}  // namespace quern::directory
