// A line of input on a terminal, with cursor keys and the lines typed before.
//
// Knows UTF-8 characters but not their widths beyond one column each. Where standard input or output is no terminal,
// or the terminal is "dumb", it reads plain lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

/// The text of one line and a cursor in it, moved by keys; no terminal needed.
class LineBuffer {
 public:
  void insert(char byte);
  void erase_before();
  void erase_after();
  void erase_to_start();
  void erase_to_end();
  void erase_word();
  void left();
  void right();
  void to_start() { cursor_ = 0; }
  void to_end() { cursor_ = text_.size(); }
  void set(std::string text);

  const std::string& text() const { return text_; }
  std::size_t cursor() const { return cursor_; }  // in bytes, never inside a character
  std::size_t columns_after_cursor() const;

 private:
  std::size_t previous() const;
  std::size_t next() const;

  std::string text_;
  std::size_t cursor_ = 0;
};

class LineEditor {
 public:
  explicit LineEditor(std::string prompt) : prompt_(std::move(prompt)) {}

  /// The next line without its newline; nothing at the end of input. Ctrl-C drops the line and begins a new one.
  std::optional<std::string> read_line();

 private:
  enum class Outcome { more, accepted, ended };

  std::optional<std::string> read_plain() const;
  Outcome take_byte(LineBuffer& line, char byte);
  void take_escape(LineBuffer& line);
  void recall(LineBuffer& line, bool older);
  void draw(const LineBuffer& line) const;

  std::string prompt_;
  std::vector<std::string> typed_;
  std::size_t at_ = 0;   // in typed_; its size is the new line
  std::string draft_;    // the new line while an older one is shown
};

}  // namespace quern::cli
