#include "markdown_view.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <regex>
#include <string>

namespace quern::cli {
namespace {

/// What is drawn, with styles as <name> in place of sequences.
std::string named(std::string bytes) {
  const std::pair<const char*, const char*> names[] = {{"1", "bold"},      {"2", "dim"},   {"3", "italic"},
                                                       {"4", "underline"}, {"36", "code"}, {"0", "/"}};
  for (const auto& [code, name] : names) {
    const std::string sequence = std::string("\x1b[") + code + "m";
    for (std::size_t at = bytes.find(sequence); at != std::string::npos; at = bytes.find(sequence))
      bytes.replace(at, sequence.size(), std::string("<") + name + ">");
  }
  return bytes;
}

std::string bytes_of(const std::string& text, std::size_t columns, std::size_t piece, bool styled) {
  MarkdownView view(styled);
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += piece) bytes += view.add(std::string_view(text).substr(at, piece), columns).bytes();
  return bytes + view.end(columns).bytes();
}

std::string drawn(const std::string& text, std::size_t columns = 80, std::size_t piece = 1000, bool styled = true) {
  return named(bytes_of(text, columns, piece, styled));
}

/// Without styles: what stands on the screen.
std::string shown(const std::string& text, std::size_t columns = 80, std::size_t piece = 1000) {
  return std::regex_replace(bytes_of(text, columns, piece, true), std::regex("\x1b\\[[0-9]+m"), "");
}

TEST(MarkdownView, ShowsMarksAsStyles) {
  EXPECT_EQ(drawn("a **b** c"), "a <bold>b</> c\n");
  EXPECT_EQ(drawn("*b* _c_ ***d***"), "<italic>b</> <italic>c</> <bold><italic>d</>\n");
  EXPECT_EQ(drawn("run `ls -l` now"), "run <code>ls</> <code>-l</> now\n");
  EXPECT_EQ(drawn("**a `b` c**"), "<bold>a</> <bold><code>b</> <bold>c</>\n");
  EXPECT_EQ(drawn("# One\n## Two"), "<bold><underline>One</>\n<bold>Two</>\n");
  EXPECT_EQ(drawn("- a\n  * b\n1. c"), "\u2022 a\n  \u2022 b\n1. c\n");
  EXPECT_EQ(drawn("> a"), "<dim>\u2502 </>a\n");
  EXPECT_EQ(drawn("```py\nx = **y**\n\n```\nz"), "<dim>```py</>\n<code>x = **y**</>\n\n<dim>```</>\nz\n");
  EXPECT_EQ(shown("---", 10), "\u2500\u2500\u2500\u2500\u2500\n");
}

TEST(MarkdownView, MarksThatMeanNothingAreText) {
  for (const std::string text :
       {"2 * 3 * 4", "2*3*4",    "snake_case_name", "a ** b",         "**open", "`open", "#hash", "-1", "1.5", "* ",
        "a_b _c",    "\\x1b[2J", "| a | **b** |",   "12345678901. x", "_",      "**",    "-",     "#",  "1.",  "```x``` y"})
    EXPECT_EQ(shown(text + "\n")
                  .find(text.substr(0, text.find_last_not_of(' ') + 1) == "*" ? "\u2022"
                        : text.substr(0, 3) == "```"                          ? "x y"
                                                                              : text),
              0u)
        << text << shown(text + "\n");
  EXPECT_EQ(shown("\\*a\\* \\(b\\)"), "*a* \\(b\\)\n");
}

TEST(MarkdownView, WithoutStylesTheMarksStay) {
  const std::string text = "# a\n**b** `c` *d*\n- e\n> f\n```\ng\n```\n---\n<think>\nh</think>";
  EXPECT_EQ(drawn(text, 80, 1000, false), text + "\n");
}

TEST(MarkdownView, WrapsBetweenWordsUnderTheItemsText) {
  EXPECT_EQ(shown("aaaa bbbb cccc", 9), "aaaa bbbb\ncccc\n");
  EXPECT_EQ(shown("- aaaa bbbb cccc", 11), "\u2022 aaaa bbbb\n  cccc\n");
  EXPECT_EQ(shown("> aaaa bbbb cccc", 11), "\u2502 aaaa bbbb\n\u2502 cccc\n");
  EXPECT_EQ(shown("aa **bbbb cccc**", 9), "aa bbbb\ncccc\n");
  EXPECT_EQ(shown("aa bbbbbbbbbbbbbbbbbbbb cc", 9),
            "aa\nbbbbbbbbbbbbbbbbbbbb cc\n");  // the terminal breaks the long one, whose last row has 2
}

TEST(MarkdownView, CountsWideAndCombiningCharacters) {
  EXPECT_EQ(shown("日本語日本語", 8), "日本語日\n本語\n");
  EXPECT_EQ(shown("e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301 x", 9), "e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301 x\n");
  EXPECT_EQ(shown("ab日本 語x", 8), "ab日本\n語x\n");
}

TEST(MarkdownView, DimsWhatTheModelThinks) {
  EXPECT_EQ(drawn("<think>\nhm **so**\n</think>\n\nYes"), "<dim>hm</> <dim>**so**</>\n\nYes\n");
  EXPECT_EQ(drawn("[THINK]a[/THINK]b"), "<dim>a</>\n\nb\n");
  EXPECT_EQ(drawn("<think></think>b"), "b\n");
  EXPECT_EQ(drawn("a <think>b"), "a <think>b\n");
  MarkdownView view(true);
  view.follow("...assistant\n<think>\n");
  std::string bytes = view.add("hm</think>x", 80).bytes();
  bytes += view.end(80).bytes();
  EXPECT_EQ(named(bytes), "<dim>hm</>\n\nx\n");
}

TEST(MarkdownView, PiecesOfAnySizeGiveTheSame) {
  const std::string text =
      std::string(
          "<think>\nso **x** </thin</think>\n\n# Title *a*\n\n1. one `co de` two\n- **bold _both_ b** tail\n\n> quote\n```c\nint a = 1;\n``\n```\n---\n"
          "日本語 e\u0301 👩‍👩‍👧 \x1b[31m **un closed\n***\n* star\n*emph*. a*b*c ~~~\n") +
      std::string(50, 'q') + "日x " + std::string(30, 'r') + "\n~~~\ncode";
  const std::string whole = drawn(text, 20);
  const std::string alike = std::regex_replace(whole, std::regex("</><(bold|dim|code|italic)>"), "");
  for (std::size_t piece = 1; piece < 12; ++piece)
    EXPECT_EQ(std::regex_replace(drawn(text, 20, piece), std::regex("</><(bold|dim|code|italic)>"), ""), alike) << piece;
}

TEST(MarkdownView, RandomTextGivesTheSameInPiecesAndNothingThatATerminalObeys) {
  const std::string parts[] = {"*",
                               "**",
                               "_",
                               "`",
                               "```",
                               "~~~",
                               "#",
                               "# ",
                               "- ",
                               "1. ",
                               "> ",
                               "|",
                               "\\",
                               "a",
                               "bc",
                               " ",
                               "  ",
                               "\n",
                               "\n\n",
                               "\u65e5",
                               "e\u0301",
                               "\x1b[2J",
                               "\u202e",
                               "\xff",
                               "\t",
                               "<think>",
                               "</think>",
                               "---",
                               "wwwwwwwwwwwwwwwwwwwwww"};
  std::mt19937 random(31);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += parts[random() % std::size(parts)];
    const std::string whole = shown(text, 20);
    EXPECT_EQ(shown(text, 20, 1 + random() % 4), whole) << testing::PrintToString(text);
    EXPECT_EQ(whole.find('\x1b'), std::string::npos) << testing::PrintToString(text);
  }
}

TEST(MarkdownView, HoldsNoMoreThanASpanBack) {
  MarkdownView view(true);
  std::size_t drawn_bytes = 0;
  const std::string text = "**" + std::string(5000, 'a') + " b";
  for (const char byte : text) drawn_bytes = view.add({&byte, 1}, 80).bytes().size() + drawn_bytes;
  EXPECT_GE(drawn_bytes, 5000u);
}

TEST(MarkdownView, NothingATerminalObeysPasses) {
  EXPECT_EQ(drawn("a\x1b[2J\x07 \u009b \u202e **\x1b]0;x**"), "a\\x1b[2J\\x07 \\u009b \\u202e <bold>\\x1b]0;x</>\n");
}

}  // namespace
}  // namespace quern::cli
