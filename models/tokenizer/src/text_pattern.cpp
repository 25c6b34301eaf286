// See text_pattern.hpp.
#include "quern/models/text_pattern.hpp"

#include "regex.hpp"

namespace quern::tokenizer {

TextPattern::TextPattern(std::string_view expression) : regex_(std::make_shared<const Regex>(expression)) {}

bool TextPattern::is_found_in(std::string_view text) const {
  RegexBudget budget(text.size());
  return RegexMatches(*regex_, text, budget).next().has_value();
}

}  // namespace quern::tokenizer
