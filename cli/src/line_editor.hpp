// A message that is typed on a terminal: one line or several, with the lines typed before.
//
// Enter accepts; Alt-Enter begins a new line, and so does Enter after an opening """. A paste of several lines is one text. Where
// standard input or output is no terminal, or the terminal is "dumb", lines are read as they come.
#pragma once

#include "key_parser.hpp"
#include "line_buffer.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

class LineEditor {
 public:
  explicit LineEditor(std::string prompt) : prompt_(std::move(prompt)) {}

  /// The next message without its last newline and without the quotes of """text"""; nothing at the end of input. Ctrl-C drops what
  /// was typed and begins anew.
  std::optional<std::string> read_line();

 private:
  enum class Outcome { more, accepted, ended };
  struct Search {
    std::string pattern;
    std::size_t at;     ///< in typed_; its size: nothing found yet
    std::string draft;  ///< what was typed before the search
  };

  std::optional<std::string> read_plain() const;
  std::optional<std::string> edit();
  Outcome take(const Key& key);
  Outcome take_control(char letter);
  bool take_in_search(const Key& key);
  void search_back(std::size_t before);
  void recall(bool older);
  void draw();
  void redraw_after_resize();
  void leave_drawing();
  bool read_keys();
  template <class Terminal>
  void take_signals(Terminal& terminal);
  void drop();

  std::string prompt_;
  KeyParser keys_;  ///< keeps what was typed ahead for the next line
  LineBuffer line_;
  std::vector<std::string> typed_;
  std::size_t at_ = 0;   ///< in typed_; its size is the new line
  std::string draft_;    ///< the new line while an older one is shown
  std::optional<Search> search_;
  std::size_t drawn_row_ = 0;  ///< of the cursor, in what is on the screen
};

/// The text between """ and """; the whole text where it does not begin so. `closed` is false while the closing quotes lack.
std::string without_quotes(const std::string& text, bool& closed);

}  // namespace quern::cli
