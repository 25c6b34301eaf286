// Where an answer goes while it comes: a terminal gets it through MarkdownView, a file or a pipe its bytes.
#pragma once

#include "markdown_view.hpp"

#include <optional>
#include <string_view>

namespace quern::cli {

class AnswerView {
 public:
  /// `plain`: a terminal gets the bytes too (with escapes, as all text of others).
  explicit AnswerView(bool plain);
  /// The answer goes on from this text, the end of a prompt.
  void follow(std::string_view text);
  void add(std::string_view piece);
  /// Ends the answer with a new line.
  void end();

 private:
  std::optional<MarkdownView> view_;
};

}  // namespace quern::cli
