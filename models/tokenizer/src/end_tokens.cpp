// Which tokens end an answer.
#include "end_tokens.hpp"

#include <algorithm>

namespace quern::tokenizer {
namespace {

// A file states one end of text; models also end a turn or a message with others, and generate on if none is
// heeded.
constexpr std::string_view known_ends[] = {
    "</s>",          "<eos>",      "<|eos|>", "<|endoftext|>", "<|end_of_text|>",  // of a text
    "<|im_end|>",    "<|eot_id|>", "<|eot|>", "<|end|>",       "<|end_of_turn|>",  // of a turn
    "<end_of_turn>", "<|eom_id|>", "<|eom|>", "<EOT>",         "<end_of_utterance>",
};

}  // namespace

std::vector<std::int32_t> find_end_tokens(const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ends = vocabulary.ends;
  for (const auto& stated : {vocabulary.eos, vocabulary.eot, vocabulary.eom})
    if (stated) ends.push_back(*stated);
  for (const std::string_view name : known_ends) {
    // Only control tokens: "</s>" is also a tag of HTML, which some vocabularies hold as an ordinary word.
    const std::int32_t id = vocabulary.find(name);
    if (id >= 0 && vocabulary.type(id) == TokenType::control) ends.push_back(id);
  }
  std::ranges::sort(ends);
  const auto rest = std::ranges::unique(ends);
  ends.erase(rest.begin(), rest.end());
  return ends;
}

}  // namespace quern::tokenizer
