// A regular expression that a user or a file gives, searched for within steps that the text's size bounds.
#pragma once

#include <memory>
#include <string_view>

namespace quern::tokenizer {

class Regex;

class TextPattern {
 public:
  /// Syntax and matches are Oniguruma's. Throws Error(QUERN_BAD_MODEL) for what is no expression, Error(QUERN_UNSUPPORTED) for a construct that is
  /// not read.
  explicit TextPattern(std::string_view expression);

  /// Throws Error(QUERN_UNSUPPORTED) where the steps are used up.
  bool is_found_in(std::string_view text) const;

 private:
  std::shared_ptr<const Regex> regex_;
};

}  // namespace quern::tokenizer
