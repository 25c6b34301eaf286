// An answer as a terminal shows it while it comes: Markdown as styles, words wrapped at the window's width, thinking dimmed.
//
// Pure: it gives drawings and knows no terminal. What is drawn does not depend on how the answer was cut into pieces. Headings, lists,
// quotes, rules, fenced code, code and emphasis inside a line are known; tables, links and all else stand as they were written.
#pragma once

#include "output.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

class MarkdownView {
 public:
  /// Without styles the marks stay, since nothing else would show what they mean; words are wrapped all the same.
  explicit MarkdownView(bool styled) : styled_(styled) {}

  /// The answer goes on from this text, in which a model may have begun to think.
  void follow(std::string_view text);
  /// The next piece, in a window of so many columns.
  Drawing add(std::string_view piece, std::size_t columns);
  /// What was held back, and a new line where the last one is not empty.
  Drawing end(std::size_t columns);

 private:
  using Styles = unsigned;  ///< one bit for each Style
  struct Run {
    Styles styles;
    std::string text;
  };

  void advance(bool complete);
  bool begin_answer(bool complete);
  void think(bool complete);
  void leave_thinking();
  void advance_line(std::string_view line, bool complete);
  bool begin_line(std::string_view line, std::size_t& used, bool complete);
  std::size_t take_inline(std::string_view text, Styles styles, bool complete);
  std::size_t take_code(std::string_view text, Styles styles, bool complete);
  std::size_t take_emphasis(std::string_view text, Styles styles, bool complete);
  void put_text(std::string_view text, Styles styles);
  void settle();
  void flush_word();
  void emit(const std::vector<Run>& runs);
  void emit(std::string_view text, Styles styles);
  void new_row();
  void finish_line();

  bool styled_;
  PrintablePieces clean_;
  std::string pending_;   ///< printable, and not yet drawn
  bool begun_ = false;    ///< whether the answer shows text
  std::string closer_;    ///< of what the model thinks; "" while it answers
  bool thought_ = false;  ///< whether any of it was drawn
  bool skip_empty_lines_ = false;
  bool in_line_ = false;   ///< begin_line() has had its say
  bool verbatim_ = false;  ///< the line is code or a row of a table
  char fence_ = 0;         ///< of the code that is open
  std::size_t fence_size_ = 0;
  Styles block_ = 0, base_ = 0;
  std::string hang_;   ///< what begins a row of a wrapped line
  char before_ = ' ';  ///< the last character of the line that was taken
  std::vector<Run> word_;
  bool word_goes_on_ = false;  ///< its start is drawn: it is longer than a row
  std::size_t blanks_ = 0;     ///< in front of word_
  std::size_t column_ = 0, columns_ = 80;
  Drawing out_;
};

}  // namespace quern::cli
