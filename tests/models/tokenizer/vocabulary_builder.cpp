// Small vocabularies for tests: good ones that a test changes in one place.
#include "vocabulary_builder.hpp"

#include <cstdio>

namespace quern::test {

std::int32_t VocabularyBuilder::add(std::string_view text, TokenType type, float score) {
  tokens.emplace_back(text);
  types.push_back(static_cast<std::int32_t>(type));
  scores.push_back(score);
  return static_cast<std::int32_t>(tokens.size() - 1);
}

void VocabularyBuilder::merge(std::string_view left, std::string_view right) {
  merges.push_back(std::string(left) + " " + std::string(right));
  add(std::string(left) + std::string(right));
}

VocabularyView VocabularyBuilder::view() {
  token_views_.assign(tokens.begin(), tokens.end());
  merge_views_.assign(merges.begin(), merges.end());
  VocabularyView view = settings;
  view.model = model;
  view.pre_tokenizer = pre_tokenizer;
  view.tokens = token_views_;
  view.merges = merge_views_;
  view.types = types;
  view.scores = scores;
  return view;
}

VocabularyBuilder byte_level(std::string_view pre_tokenizer) {
  VocabularyBuilder vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre_tokenizer = pre_tokenizer;
  vocabulary.add("<|end|>", TokenType::control);
  vocabulary.add("<tool>", TokenType::user_defined);
  int next = 0x100;  // the byte alphabet, written a second time: the test must not use the code it tests
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const int code = itself ? byte : next++;
    std::string text;
    if (code < 0x80) {
      text = static_cast<char>(code);
    } else {
      text = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
    vocabulary.add(text);
  }
  return vocabulary;
}

VocabularyBuilder sentencepiece() {
  VocabularyBuilder vocabulary;
  vocabulary.model = "llama";
  vocabulary.add("<unk>", TokenType::unknown);
  vocabulary.add("<s>", TokenType::control);
  vocabulary.add("</s>", TokenType::control);
  for (int byte = 0; byte < 256; ++byte) {
    char text[7];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    vocabulary.add(text, TokenType::byte);
  }
  vocabulary.add(space_mark, TokenType::normal, -100);
  for (const char* letter : {"a", "b", "c", "d", "e"}) vocabulary.add(letter, TokenType::normal, -101);
  vocabulary.settings.bos = 1;
  vocabulary.settings.eos = 2;
  return vocabulary;
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  std::vector<std::string> result;
  for (const std::int32_t id : tokenizer.encode(text, options)) result.emplace_back(tokenizer.token_text(id));
  return result;
}

}  // namespace quern::test
