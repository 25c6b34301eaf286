// Cuts a template's source into tokens, one at a time.
//
// Whitespace control is done here, as Jinja does it with trim_blocks and lstrip_blocks set: a newline after a
// block or a comment goes away, so does blank space in front of one that opens a line, '-' strips all
// whitespace, '+' keeps it.
#pragma once

#include "budget.hpp"

#include "quern/graph/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jinja {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  operation,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  ///< data, a name, an operator, the value of a string
  std::int64_t integer = 0;
  double real = 0;
};

/// Error(code, "<name>: line <line>: <text>").
[[noreturn]] void fail_at(quern_status code, const std::string& name, int line, const std::string& text);

class Lexer {
 public:
  /// `source` is valid UTF-8. The budget must outlive the lexer; each token counts against it.
  Lexer(std::string_view source, Budget& budget);

  /// The next token; kind end again and again after the last.
  Token next();

 private:
  enum class State : std::uint8_t { root, block, variable };

  void scan(Token& token);
  bool scan_root(Token& token);
  void scan_raw(Token& token, std::size_t begin_length);
  void skip_comment(std::size_t begin_length);
  bool scan_end_of_tag(Token& token);
  void scan_number(Token& token);
  void scan_name(Token& token);
  void scan_string(Token& token);
  void scan_operation(Token& token);
  std::string unescape(std::string_view text) const;

  std::string_view strip_before_tag(std::string_view text, char sign, bool is_variable) const;
  std::size_t match_raw(std::size_t at, std::string_view word) const;
  std::size_t skip_space(std::size_t at) const;
  std::size_t digits(std::size_t at) const;
  char peek(std::size_t at) const noexcept { return at < source_.size() ? source_[at] : '\0'; }
  bool starts(std::size_t at, std::string_view text) const noexcept {
    return std::string_view(source_).substr(at).substr(0, text.size()) == text;
  }
  void advance(std::size_t to);
  [[noreturn]] void fail(const std::string& text) const { fail_at(QUERN_BAD_MODEL, budget_.template_name(), line_, text); }

  Budget& budget_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  State state_ = State::root;
  State pending_ = State::root;  ///< what the begin token that follows the data token opens
  bool has_pending_ = false;
  std::size_t pending_end_ = 0;
  std::string open_;  ///< brackets that are open inside the tag, as the characters that close them
};

}  // namespace quern::jinja
