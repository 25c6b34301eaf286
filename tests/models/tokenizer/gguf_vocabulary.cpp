// Vocabularies of tests as GGUF files in memory.
#include "gguf_vocabulary.hpp"

#include "quern/models/gguf.hpp"

namespace quern::test {

GgufWriter gguf_of(const VocabularyBuilder& vocabulary) {
  GgufWriter writer;
  writer.string("general.architecture", "llama")
      .string("tokenizer.ggml.model", vocabulary.model)
      .strings("tokenizer.ggml.tokens", vocabulary.tokens)
      .i32s("tokenizer.ggml.token_type", vocabulary.types);
  if (vocabulary.model == "gpt2") {
    writer.string("tokenizer.ggml.pre", vocabulary.pre_tokenizer).strings("tokenizer.ggml.merges", vocabulary.merges);
  } else {
    writer.f32s("tokenizer.ggml.scores", std::vector<float>(vocabulary.scores.begin(), vocabulary.scores.end()));
  }
  const auto id = [&](std::string_view key, const std::optional<std::uint64_t>& value) {
    if (value) writer.u32(key, static_cast<std::uint32_t>(*value));
  };
  id("tokenizer.ggml.bos_token_id", vocabulary.settings.bos);
  id("tokenizer.ggml.eos_token_id", vocabulary.settings.eos);
  return writer;
}

std::unique_ptr<Tokenizer> load(const GgufWriter& writer, std::string_view pre_tokenizer) {
  const GgufWriter::Bytes bytes = writer.bytes();
  return tokenizer_from_gguf(gguf::File::from_memory(bytes, "vocabulary.gguf"), pre_tokenizer);
}

}  // namespace quern::test
