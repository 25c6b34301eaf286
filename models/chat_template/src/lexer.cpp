// The root of a template: data, comments, raw sections, and where tags begin and end. Tokens inside tags are
// in lexer_tags.cpp.
#include "lexer.hpp"

#include "text.hpp"

#include <algorithm>

namespace quern::jinja {

namespace {

constexpr std::size_t npos = std::string_view::npos;

// Every line ending becomes one \n, and the last one of the file goes away.
std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_blank(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (!is_space(next_code_point(text, at))) return false;
  }
  return true;
}

}  // namespace

void fail_at(quern_status code, const std::string& name, int line, const std::string& text) {
  constexpr std::size_t longest = 3000;  // raise_exception() may quote 2000 bytes of a chat
  const std::string_view start = cut_text(text, longest);
  throw Error(code, concat(name, ": chat template, line ", line, ": ", start, start.size() < text.size() ? "..." : ""));
}

Lexer::Lexer(std::string_view source, Budget& budget) : budget_(budget), source_(normalise(source)) {}

void Lexer::advance(std::size_t to) {
  line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                       source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  at_ = to;
}

std::size_t Lexer::skip_space(std::size_t at) const {
  while (at < source_.size()) {
    std::size_t next = at;
    if (!is_space(next_code_point(source_, next))) break;
    at = next;
  }
  return at;
}

Token Lexer::next() {
  Token token;
  const std::size_t start = at_;
  scan(token);
  budget_.set_line(token.line);
  budget_.step();
  budget_.step_text(at_ - start);
  return token;
}

void Lexer::scan(Token& token) {
  if (has_pending_) {
    has_pending_ = false;
    token.line = line_;
    token.kind = pending_ == State::block ? TokenKind::block_begin : TokenKind::variable_begin;
    state_ = pending_;
    advance(pending_end_);
    return;
  }
  if (state_ == State::root) {
    while (at_ < source_.size()) {
      if (scan_root(token)) return;
    }
    token.line = line_;
    return;
  }
  if (scan_end_of_tag(token)) return;
  advance(skip_space(at_));
  if (scan_end_of_tag(token)) return;
  token.line = line_;
  if (at_ >= source_.size()) return;
  const char c = source_[at_];
  std::size_t after = at_;
  const char32_t code_point = next_code_point(source_, after);
  if (c >= '0' && c <= '9') {
    scan_number(token);
  } else if (is_identifier_start(code_point)) {
    scan_name(token);
  } else if (c == '\'' || c == '"') {
    scan_string(token);
  } else {
    scan_operation(token);
  }
  return;
}

// The data in front of the tag that begins with `sign` ('-', '+' or none).
std::string_view Lexer::strip_before_tag(std::string_view text, char sign, bool is_variable) const {
  if (sign == '-') return strip_right(budget_, text);
  if (sign == '+' || is_variable) return text;
  const std::size_t newline = text.rfind('\n');
  const std::size_t line_start = newline == npos ? 0 : newline + 1;
  const bool at_line_start = line_start > 0 || at_ == 0 || source_[at_ - 1] == '\n';
  return at_line_start && is_blank(text.substr(line_start)) ? text.substr(0, line_start) : text;
}

// The length of `{%[-+]? word %}` at `at` with the whitespace it swallows, or 0. `word` is raw or endraw.
std::size_t Lexer::match_raw(std::size_t at, std::string_view word) const {
  std::size_t end = at + 2;
  if (peek(end) == '-' || peek(end) == '+') ++end;
  end = skip_space(end);
  if (!starts(end, word)) return 0;
  end = skip_space(end + word.size());
  if (starts(end, "-%}")) return skip_space(end + 3) - at;
  const bool closes = word == "endraw";  // only the end swallows a newline or takes a '+'
  if (closes && starts(end, "+%}")) return end + 3 - at;
  if (!starts(end, "%}")) return 0;
  end += 2;
  if (closes && peek(end) == '\n') ++end;
  return end - at;
}

// Reads data up to the next tag. False if that left nothing to hand out (a comment, say).
bool Lexer::scan_root(Token& token) {
  const std::string_view source = source_;
  std::size_t tag = at_;
  while ((tag = source.find('{', tag)) != npos) {
    const char second = peek(tag + 1);
    if (second == '{' || second == '%' || second == '#') break;
    ++tag;
  }
  token.line = line_;
  token.kind = TokenKind::data;
  if (tag == npos) {
    token.text = source.substr(at_);
    advance(source_.size());
    return true;
  }
  const char second = source_[tag + 1];
  const char sign = peek(tag + 2) == '-' || peek(tag + 2) == '+' ? peek(tag + 2) : '\0';
  const std::size_t after = tag + (sign != '\0' ? 3 : 2);
  token.text = strip_before_tag(source.substr(at_, tag - at_), sign, second == '{');
  advance(tag);
  if (second == '#') {
    skip_comment(after - tag);
    return !token.text.empty();
  }
  if (second == '%') {
    if (const std::size_t length = match_raw(tag, "raw"); length > 0) {
      scan_raw(token, length);
      return !token.text.empty();
    }
  }
  pending_ = second == '%' ? State::block : State::variable;
  pending_end_ = after;
  if (!token.text.empty()) {
    has_pending_ = true;
    return true;
  }
  token.kind = second == '%' ? TokenKind::block_begin : TokenKind::variable_begin;
  token.line = line_;
  state_ = pending_;
  advance(after);
  return true;
}

void Lexer::skip_comment(std::size_t begin_length) {
  const std::size_t start = at_ + begin_length;
  const std::size_t close = source_.find("#}", start);
  if (close == npos) fail("a comment '{#' is not closed; write '#}' where it ends");
  const char before = close > start ? source_[close - 1] : '\0';
  std::size_t end = close + 2;
  if (before == '-') {
    end = skip_space(end);
  } else if (before != '+' && peek(end) == '\n') {
    ++end;
  }
  advance(end);
}

// Appends the text of a raw section to the data in front of it.
void Lexer::scan_raw(Token& token, std::size_t begin_length) {
  const int line = line_;
  advance(at_ + begin_length);
  for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != npos; ++tag) {
    const std::size_t length = match_raw(tag, "endraw");
    if (length == 0) continue;
    const char sign = peek(tag + 2) == '-' || peek(tag + 2) == '+' ? peek(tag + 2) : '\0';
    token.text += strip_before_tag(std::string_view(source_).substr(at_, tag - at_), sign, false);
    advance(tag + length);
    return;
  }
  fail_at(QUERN_BAD_MODEL, budget_.template_name(), line, "a raw section is not closed; write '{% endraw %}' where it ends");
}

bool Lexer::scan_end_of_tag(Token& token) {
  if (!open_.empty()) return false;
  const bool block = state_ == State::block;
  const std::string_view close = block ? "%}" : "}}";
  std::size_t end = at_;
  if (starts(end, close)) {
    end += 2;
    if (block && peek(end) == '\n') ++end;
  } else if (peek(end) == '-' && starts(end + 1, close)) {
    end = skip_space(end + 3);
  } else if (block && peek(end) == '+' && starts(end + 1, close)) {
    end += 3;
  } else {
    return false;
  }
  token.kind = block ? TokenKind::block_end : TokenKind::variable_end;
  token.line = line_;
  state_ = State::root;
  advance(end);
  return true;
}

}  // namespace quern::jinja
