// A SentencePiece vocabulary that transformers has written as BPE with merges.
#pragma once

#include "json_file.hpp"
#include "tokenizer_json.hpp"

#include <string>
#include <vector>

namespace quern::directory {

/// Writes scores and how texts begin, and sets the types of bytes and of the unknown token. The score of a token is the place of its first
/// merge. False, with nothing written, where the steps or the merges are not SentencePiece's.
bool write_sentencepiece_keys(const JsonFile& file, const std::vector<std::string>& merges, TokenList& list, gguf::Writer& keys);

}  // namespace quern::directory
