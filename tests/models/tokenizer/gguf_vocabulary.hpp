// Vocabularies of tests as GGUF files in memory.
#pragma once

#include "vocabulary_builder.hpp"

#include "support/gguf_writer.hpp"

#include <memory>
#include <string>

namespace quern::test {

/// The keys of a model file that hold `vocabulary`.
GgufWriter gguf_of(const VocabularyBuilder& vocabulary);

/// The tokenizer of the file that `writer` writes, which errors call "vocabulary.gguf".
std::unique_ptr<Tokenizer> load(const GgufWriter& writer, std::string_view pre_tokenizer = {});

}  // namespace quern::test
