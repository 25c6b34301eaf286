// The text that is being typed and a cursor in it. No terminal needed.
#pragma once

#include <string>
#include <string_view>

namespace quern::cli {

/// Moves and erases by what a reader sees as one character: a letter with its combining marks, an emoji with its modifiers.
/// Bytes that are no UTF-8 count as one character each.
class LineBuffer {
 public:
  void insert(std::string_view text);
  /// What is from byte `from` up to the cursor becomes `text`.
  void replace(std::size_t from, std::string_view text);
  void erase_before();
  void erase_after();
  void erase_to_start();
  void erase_to_end();
  void erase_word_before();
  void erase_word_after();
  void left();
  void right();
  void word_left();
  void word_right();
  void to_start();  ///< of the line of text, not of the row on the screen
  void to_end();
  void set(std::string text);
  void set(std::string text, std::size_t cursor);

  const std::string& text() const { return text_; }
  std::size_t cursor() const { return cursor_; }  ///< in bytes, never inside a character

 private:
  std::size_t previous() const;
  std::size_t next() const;
  std::size_t word_before() const;
  std::size_t word_after() const;
  void erase(std::size_t from, std::size_t to);

  std::string text_;
  std::size_t cursor_ = 0;
};

}  // namespace quern::cli
