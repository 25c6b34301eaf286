// A message that is typed on a terminal: one line or several, with the lines typed before.
//
// Enter accepts; Alt-Enter begins a new line, and so does Enter after an opening """. A paste of several lines is one text. Tab completes.
// Where standard input or output is no terminal, or the terminal is "dumb", lines are read as they come.
#pragma once

#include "attachments.hpp"
#include "key_parser.hpp"
#include "line_buffer.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

class LineEditor {
 public:
  explicit LineEditor(std::string prompt) : prompt_(std::move(prompt)) {}

  /// Lines typed before, the oldest first.
  void set_typed(std::vector<std::string> lines) { typed_ = std::move(lines); }
  /// What Tab does; without it, it is a character.
  void set_completion(std::function<Completion(std::string_view, std::size_t)> complete) { complete_ = std::move(complete); }
  /// Gets each line that is accepted.
  void set_keeper(std::function<void(const std::string&)> keep) { keep_ = std::move(keep); }

  /// The next message without its last newline and without the quotes of """text"""; nothing at the end of input, and where
  /// Ctrl-C came twice within a second while nothing was typed. Ctrl-C drops what was typed and begins anew.
  std::optional<std::string> read_line();
  /// The same, with a text to begin with; "" where Ctrl-C dropped it.
  std::optional<std::string> change_line(const std::string& text);
  /// The answer to a question, which is kept nowhere; nothing at the end of input and after Ctrl-C.
  std::optional<std::string> ask(const std::string& question);
  /// Asked once before each line: whether Ctrl-C came since the last one. It then counts as if it came now.
  void set_interrupts(std::function<bool()> take_interrupt) { take_interrupt_ = std::move(take_interrupt); }
  /// Ctrl-C came outside of the editor, and counts as the first of two.
  void note_interrupt() { interrupted_at_ = std::chrono::steady_clock::now(); }

 private:
  enum class Outcome { more, accepted, ended };
  enum class AtInterrupt { begin_anew, give_up };
  struct Search {
    std::string pattern;
    std::size_t at;     ///< in typed_; its size: nothing found yet
    std::string draft;  ///< what was typed before the search
  };

  std::optional<std::string> read(const std::string& text, AtInterrupt at_interrupt);
  std::optional<std::string> read_plain(AtInterrupt at_interrupt);
  std::optional<std::string> edit(const std::string& text, AtInterrupt at_interrupt);
  std::optional<std::string> accepted(const std::optional<std::string>& text);
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
  bool second_interrupt();
  void complete();
  void list_words(const std::vector<std::string>& words);

  std::string prompt_;
  std::function<Completion(std::string_view, std::size_t)> complete_;
  std::function<void(const std::string&)> keep_;
  std::function<bool()> take_interrupt_;
  std::chrono::steady_clock::time_point interrupted_at_{};
  bool dropped_ = false, left_ = false;  ///< by Ctrl-C: what was typed, the program
  KeyParser keys_;                       ///< keeps what was typed ahead for the next line
  LineBuffer line_;
  std::vector<std::string> typed_;
  std::size_t at_ = 0;  ///< in typed_; its size is the new line
  std::string draft_;   ///< the new line while an older one is shown
  std::optional<Search> search_;
  std::size_t drawn_row_ = 0;  ///< of the cursor, in what is on the screen
};

/// The text between """ and """; the whole text where it does not begin so. `closed` is false while the closing quotes lack.
std::string without_quotes(const std::string& text, bool& closed);

}  // namespace quern::cli
