#include "quern/base/terminal_output.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <string>

namespace quern {
namespace {

/// A pipe or a pseudo-terminal: what is written to `in` can be read.
struct Channel {
  int in = -1, out = -1;
  ~Channel() {
    ::close(in);
    ::close(out);
  }
  /// What came, and at least so many bytes: a terminal hands on what was written a little later.
  std::string read(std::size_t least = 1) const {
    std::string text;
    char buffer[4096];
    while (text.size() < least) {
      const ssize_t got = ::read(out, buffer, sizeof buffer);
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
};

Channel make_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {ends[1], ends[0]};
}

Channel make_terminal() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(::grantpt(master), 0);
  EXPECT_EQ(::unlockpt(master), 0);
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios raw{};
  ::tcgetattr(slave, &raw);
  ::cfmakeraw(&raw);
  ::tcsetattr(slave, TCSANOW, &raw);
  return {slave, master};
}

using Kind = TerminalOutput::Kind;
constexpr std::string_view hostile = "a\x1b[2J\u202e\x9b\n";
constexpr std::string_view shown = "a\\x1b[2J\\u202e\\x9b\n";

TEST(TerminalOutput, ResultsKeepTheirBytesInAPipe) {
  const Channel channel = make_pipe();
  EXPECT_EQ(TerminalOutput(channel.in, Kind::results).write(hostile), 0);
  EXPECT_EQ(channel.read(), hostile);
}

TEST(TerminalOutput, ResultsAreEscapedOnATerminal) {
  const Channel channel = make_terminal();
  EXPECT_EQ(TerminalOutput(channel.in, Kind::results).write(hostile), 0);
  EXPECT_EQ(channel.read(), shown);
}

TEST(TerminalOutput, MessagesAreEscapedEverywhere) {
  const Channel channel = make_pipe();
  EXPECT_EQ(TerminalOutput(channel.in, Kind::messages).write(hostile), 0);
  EXPECT_EQ(channel.read(), shown);
}

TEST(TerminalOutput, ASequenceThatIsSplitOverWritesIsEscapedToo) {
  const Channel channel = make_terminal();
  TerminalOutput output(channel.in, Kind::results);
  for (const char c : std::string_view("\x1b]0;t\x07\xc2\x9b\xe2\x80\xae\xe4\xb8\xad.")) output.write({&c, 1});
  constexpr std::string_view expected = "\\x1b]0;t\\x07\\u009b\\u202e\u4e2d.";
  EXPECT_EQ(channel.read(expected.size()), expected);
}

TEST(TerminalOutput, JsonOnATerminalStaysJson) {
  const Channel channel = make_terminal();
  EXPECT_EQ(TerminalOutput(channel.in, Kind::results).write_json("{\"a\":\"\u009b\"}\n"), 0);
  EXPECT_EQ(channel.read(), "{\"a\":\"\\u009b\"}\n");
}

TEST(Drawing, StylesTextAndEndsAllStylesAtOnce) {
  EXPECT_EQ(Drawing().style(Style::bold).style(Style::cyan).text("a\x1b").no_style().bytes(), "\x1b[1m\x1b[36ma\\x1b\x1b[0m");
}

TEST(Drawing, GivesTheClipboardTheBytesThemselves) {
  for (const auto& [text, coded] : {std::pair("", ""), {"M", "TQ=="}, {"Ma", "TWE="}, {"Man", "TWFu"}, {"\xff\x1b\n?", "/xsKPw=="}})
    EXPECT_EQ(Drawing().copy(text).bytes(), std::string("\x1b]52;c;") + coded + "\a");
}

TEST(TerminalOutput, OnlyADrawingMovesTheCursor) {
  const Channel channel = make_terminal();
  TerminalOutput output(channel.in, Kind::messages);
  output.draw(Drawing().clear_line().text("> \x1b[2J\n"));
  EXPECT_EQ(channel.read(), "\r\x1b[K> \\x1b[2J\\x0a");
  output.draw(Drawing().up(0).up(2).clear_below().rows("a\x1b[2J\r\nb\x9b").column(3));
  EXPECT_EQ(channel.read(), "\x1b[2A\r\x1b[Ja\\x1b[2J\r\nb\\x9b\r\x1b[3C");
}

TEST(TerminalOutput, ColumnsAreThoseOfTheDrawnText) {
  EXPECT_EQ(columns_of("\u4e2d\xc3"), 1u);  // half a character is not drawn
  EXPECT_EQ(columns_of("a\x9b"
                       "b"),
            6u);
}

TEST(TerminalOutput, AStreamGoesThroughTheOutput) {
  const Channel channel = make_pipe();
  TerminalOutput output(channel.in, Kind::messages);
  {
    TerminalBuffer buffer(output);
    std::ostream stream(&buffer);
    stream << "number " << 5 << ' ' << '\x1b' << "\xe4"
           << "\xb8\xad" << std::endl;
    EXPECT_EQ(channel.read(), "number 5 \\x1b\u4e2d\n");
    stream << "rest";
  }
  EXPECT_EQ(channel.read(), "rest");
}

TEST(TerminalOutput, AWriteThatFailsIsSaid) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  TerminalOutput output(full, Kind::results);
  EXPECT_EQ(output.write("x"), ENOSPC);
  TerminalBuffer buffer(output);
  std::ostream stream(&buffer);
  EXPECT_EQ(buffer.problem(), 0);
  stream << "y" << std::flush;
  EXPECT_EQ(buffer.problem(), ENOSPC);
  ::close(full);
}

}  // namespace
}  // namespace quern
