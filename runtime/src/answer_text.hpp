// Turns drawn tokens into text that is certain: whole UTF-8 characters, and nothing that could still become a stop string.
#pragma once

#include "vocabulary.hpp"

#include <string>
#include <vector>

namespace quern::runtime {

class AnswerText {
 public:
  AnswerText(const Vocabulary& vocabulary, std::vector<std::string> stops);

  /// Text that is certain after this token; may be empty.
  std::string push(std::int32_t token);
  /// The text held back, at the end of the answer. Nothing after a stop string.
  std::string finish();
  bool stopped() const noexcept { return stopped_; }

 private:
  std::string release(bool all);

  const Vocabulary& vocabulary_;
  std::vector<std::string> stops_;
  Utf8Stream utf8_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace quern::runtime
