// The one way of a program's bytes to its standard output and standard error. For programs; a library never prints.
//
// Only a Drawing moves a cursor. It is a type of its own, so that no text can pass for one.
#pragma once

#include "quern/base/terminal_text.hpp"

#include <cstddef>
#include <cstdint>
#include <streambuf>
#include <string>
#include <string_view>

namespace quern {

/// How text looks. Several may hold at the same time.
enum class Style : std::uint8_t { bold, dim, italic, underline, red, green, yellow, blue, cyan };

/// What a program draws on a terminal: text, which is escaped, and moves of the cursor.
class Drawing {
 public:
  /// To the first column, with the line erased.
  Drawing& clear_line();
  /// To the first column, with this row and those below it erased.
  Drawing& clear_below();
  Drawing& clear_screen();
  /// One line of text. The start of a character at its end is left out.
  Drawing& text(std::string_view text);
  /// Text of several rows: \r goes to the first column and \n to the next row.
  Drawing& rows(std::string_view text);
  Drawing& up(std::size_t rows);
  Drawing& column(std::size_t column);
  /// Whether the terminal marks what is pasted.
  Drawing& mark_pastes(bool on);
  /// For the text that follows, beside the styles that hold already.
  Drawing& style(Style style);
  /// Ends all styles.
  Drawing& no_style();
  /// Gives the text, byte for byte, to the terminal's clipboard (OSC 52). Many terminals take 74,994 bytes at most.
  Drawing& copy(std::string_view text);
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

/// Columns that a text takes in a Drawing, one a character.
std::size_t columns_of(std::string_view text);

/// One stream of a program.
class TerminalOutput {
 public:
  /// Results keep their bytes on the way to a file or a pipe. Messages are escaped everywhere: who pastes a log later has a terminal too.
  enum class Kind { results, messages };

  TerminalOutput(int file, Kind kind) noexcept : file_(file), kind_(kind) {}

  bool is_terminal() const;

  /// Each returns 0, or errno of what failed. A signal in between is no failure. Text in pieces may end inside a character.
  int write(std::string_view text);
  int write_json(std::string_view json);
  int draw(const Drawing& drawing);

  /// A line that is printable already, from a signal handler. On a terminal it begins behind what stands there.
  static void write_in_handler(int file, std::string_view line) noexcept;

 private:
  bool escapes() const { return kind_ == Kind::messages || is_terminal(); }
  int put(std::string_view bytes);

  int file_;
  Kind kind_;
  PrintablePieces pieces_;
};

/// For std::ostream: what is streamed goes through the output, at each flush and where the buffer is full.
class TerminalBuffer : public std::streambuf {
 public:
  explicit TerminalBuffer(TerminalOutput& output) : output_(output) { setp(buffer_, buffer_ + sizeof buffer_); }
  ~TerminalBuffer() override { sync(); }

  /// errno of the first write that failed, or 0. Nothing is written behind it.
  int problem() const noexcept { return problem_; }

 protected:
  int overflow(int c) override;
  int sync() override;

 private:
  TerminalOutput& output_;
  int problem_ = 0;
  char buffer_[4096];
};

}  // namespace quern
