#include "markdown_view.hpp"

#include "characters.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace quern::cli {
namespace {

constexpr std::size_t longest_span = 400;  // bytes of emphasis, of code in a line, of what may open a fence: so much is held back at most

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> thinking_marks{
    {{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<reasoning>", "</reasoning>"}, {"[THINK]", "[/THINK]"}}};

constexpr unsigned style_bit(Style style) { return 1u << static_cast<unsigned>(style); }

bool is_alphanumeric(char byte) { return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z'); }
bool is_digit_mark(char byte) { return byte >= '0' && byte <= '9'; }
bool is_blank_mark(char byte) { return byte == ' ' || byte == '\t'; }

std::size_t run_of(std::string_view text, char mark, std::size_t from = 0) {
  const std::size_t end = text.find_first_not_of(mark, from);
  return (end == std::string_view::npos ? text.size() : end) - from;
}

std::size_t columns_of_text(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    columns += static_cast<std::size_t>(one.columns);
    at += one.bytes;
  }
  return columns;
}

/// How much of the text's end may be the start of `mark`.
std::size_t begun_at_end(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (mark.starts_with(text.substr(text.size() - size))) return size;
  return 0;
}

/// What a line begins with, and what it is.
struct LineStart {
  std::size_t used = 0;       ///< bytes of the line that `quote` and `leader` stand for
  std::string quote, leader;  ///< to draw in their place
  std::string hang;           ///< what begins each further row
  unsigned styles = 0, leader_styles = 0;
  bool verbatim = false;
  char fence = 0;
  std::size_t fence_size = 0;
};

/// A list's item: `size` bytes of the line are its mark, drawn as `leader`.
void begin_item(LineStart& start, std::string_view leader, std::size_t size) {
  start.leader += leader;
  start.hang += std::string(size, ' ');
  start.used += size;
}

/// Nothing while more of the line is needed.
std::optional<LineStart> line_start_of(std::string_view line, bool complete, bool styled, std::size_t columns) {
  LineStart start;
  std::size_t quotes = 0;
  while (line.substr(std::min(start.used + run_of(line, ' ', start.used), line.size())).starts_with('>')) {
    start.used += run_of(line, ' ', start.used) + 1;
    if (start.used == line.size() && !complete) return {};
    if (start.used < line.size() && line[start.used] == ' ') ++start.used;
    ++quotes;
  }
  for (; quotes > 0; --quotes) start.quote += styled ? "\u2502 " : "> ";
  const std::size_t spaces = run_of(line, ' ', start.used);
  start.used += spaces;
  start.leader.assign(spaces, ' ');
  start.hang = start.quote + start.leader;
  const std::string_view rest = line.substr(start.used);
  if (rest.empty()) return complete ? std::optional(start) : std::nullopt;
  const char first = rest.front();
  const std::size_t size = run_of(rest, first);
  const bool alone = rest.find_first_not_of(" \t", size) == std::string_view::npos;  // nothing but these marks so far
  if (std::string_view("#`~-*_+").find(first) != std::string_view::npos && alone && !complete) return {};
  if (first == '#' && size <= 6 && size < rest.size() && rest[size] == ' ' && styled) {
    start.used += size + run_of(rest, ' ', size);
    start.styles = style_bit(Style::bold) | (size == 1 ? style_bit(Style::underline) : 0);
  } else if ((first == '`' || first == '~') && size >= 3) {
    if (!complete && rest.size() < longest_span) return {};
    if (complete && (first == '~' || rest.find('`', size) == std::string_view::npos)) {
      start.fence = first;
      start.fence_size = size;
      start.verbatim = true;
      start.styles = style_bit(Style::dim);
    }
  } else if (first == '|') {
    start.verbatim = true;
  } else if (std::string_view("-*_").find(first) != std::string_view::npos && alone && size >= 3 && styled) {
    start.used = line.size();
    start.leader_styles = style_bit(Style::dim);
    for (std::size_t i = 0; i < std::min<std::size_t>(columns / 2, 40); ++i) start.leader += "\u2500";
  } else if (std::string_view("-*+").find(first) != std::string_view::npos && size == 1 && rest.size() > 1 && rest[1] == ' ') {
    begin_item(start, styled ? "\u2022 " : rest.substr(0, 2), 2);
  } else if (is_digit_mark(first)) {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits <= 9 && digits == rest.size() && !complete) return {};
    if (digits <= 9 && digits < rest.size() && (rest[digits] == '.' || rest[digits] == ')')) {
      if (digits + 1 == rest.size() && !complete) return {};
      if (digits + 1 < rest.size() && rest[digits + 1] == ' ') begin_item(start, rest.substr(0, digits + 2), digits + 2);
    }
  }
  return start;
}

}  // namespace

void MarkdownView::follow(std::string_view text) {
  for (const auto& [opener, closer] : thinking_marks) {
    const std::size_t at = text.rfind(opener);
    if (at == std::string_view::npos || text.substr(at + opener.size()).find_first_not_of(" \n") != std::string_view::npos) continue;
    closer_ = closer;
    base_ = style_bit(Style::dim);
    begun_ = true;
  }
}

Drawing MarkdownView::add(std::string_view piece, std::size_t columns) {
  columns_ = std::max<std::size_t>(columns, 8);
  pending_ += clean_.add(piece);
  advance(false);
  return std::exchange(out_, Drawing());
}

Drawing MarkdownView::end(std::size_t columns) {
  columns_ = std::max<std::size_t>(columns, 8);
  advance(true);
  flush_word();
  if (column_ > 0 || in_line_) finish_line();
  return std::exchange(out_, Drawing());
}

void MarkdownView::advance(bool complete) {
  if (!begun_ && !begin_answer(complete)) return;
  if (!closer_.empty()) think(complete);
  if (!closer_.empty()) return;
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
    const std::string line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    if (skip_empty_lines_ && !in_line_ && line.find_first_not_of(" \t") == std::string::npos) continue;
    advance_line(line, true);
    finish_line();
  }
  if (skip_empty_lines_ && !in_line_ && pending_.find_first_not_of(" \t") == std::string::npos) return;
  const std::string rest = std::exchange(pending_, std::string());
  advance_line(rest, complete);
}

/// Whether it is known how the answer begins: with thinking, or with text.
bool MarkdownView::begin_answer(bool complete) {
  const std::size_t first = pending_.find_first_not_of(" \n");
  const std::string_view text = first == std::string::npos ? std::string_view() : std::string_view(pending_).substr(first);
  for (const auto& [opener, closer] : thinking_marks) {
    if (text.starts_with(opener)) {
      closer_ = closer;
      base_ = style_bit(Style::dim);
      pending_.erase(0, first + (styled_ ? opener.size() : 0));
      if (styled_) skip_empty_lines_ = true;
      begun_ = true;
      return true;
    }
    if (opener.starts_with(text) && !complete) return false;
  }
  return begun_ = true;
}

void MarkdownView::think(bool complete) {
  if (skip_empty_lines_) {
    pending_.erase(0, pending_.find_first_not_of(" \n"));
    if (pending_.empty()) return;
    skip_empty_lines_ = false;
  }
  const std::size_t end = pending_.find(closer_);
  const std::size_t known = end != std::string::npos ? end : pending_.size() - (complete ? 0 : begun_at_end(pending_, closer_));
  const std::string text = pending_.substr(0, known);
  pending_.erase(0, known);
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t newline = std::min(text.find('\n', from), text.size());
    put_text(std::string_view(text).substr(from, newline - from), 0);
    if (newline < text.size()) finish_line();
    from = newline + 1;
    thought_ = true;
  }
  if (end != std::string::npos) leave_thinking();
}

void MarkdownView::leave_thinking() {
  if (!styled_) put_text(closer_, 0);
  pending_.erase(0, closer_.size());
  closer_.clear();
  flush_word();
  if (column_ > 0) finish_line();
  if (thought_) finish_line();
  base_ = 0;
  skip_empty_lines_ = true;
}

/// Draws what is certain of a line and puts the rest back.
void MarkdownView::advance_line(std::string_view line, bool complete) {
  std::size_t used = 0;
  if (!in_line_ && (!line.empty() || complete)) {
    if (!begin_line(line, used, complete)) {
      pending_.insert(0, line);
      return;
    }
    in_line_ = true;
    skip_empty_lines_ = false;
  }
  line.remove_prefix(used);
  if (verbatim_) {
    emit(line, block_);
    return;
  }
  while (!line.empty()) {
    const std::size_t taken = take_inline(line, block_, complete);
    if (taken == 0) break;
    before_ = line[taken - 1];
    line.remove_prefix(taken);
  }
  pending_.insert(0, line);
}

/// Takes what a line begins with. False while more of it is needed.
bool MarkdownView::begin_line(std::string_view line, std::size_t& used, bool complete) {
  if (fence_ != 0) {
    const std::size_t spaces = run_of(line, ' '), marks = run_of(line, fence_, spaces);
    const bool may_close = spaces < 4 && line.find_first_not_of(" \t", spaces + marks) == std::string_view::npos;
    if (may_close && !complete) return false;
    const bool closes = may_close && marks >= fence_size_;
    block_ = closes ? style_bit(Style::dim) : style_bit(Style::cyan);
    if (closes) fence_ = 0;
    verbatim_ = true;
    return true;
  }
  const std::optional<LineStart> start = line_start_of(line, complete, styled_, columns_);
  if (!start) return false;
  used = start->used;
  hang_ = start->hang;
  block_ = start->styles;
  verbatim_ = start->verbatim;
  fence_ = start->fence;
  fence_size_ = start->fence_size;
  if (columns_of_text(hang_) > columns_ / 2) hang_.clear();
  emit(start->quote, style_bit(Style::dim));
  emit(start->leader, start->leader_styles);
  before_ = ' ';
  return true;
}

/// Bytes of the start of `text` that were taken: text, or a whole span. 0 while more is needed.
std::size_t MarkdownView::take_inline(std::string_view text, Styles styles, bool complete) {
  constexpr std::string_view marks = "`*_\\";
  const char first = text.front();
  if (first == '`') return take_code(text, styles, complete);
  if (first == '*' || first == '_') return take_emphasis(text, styles, complete);
  if (first == '\\') {
    if (text.size() == 1 && !complete) return 0;
    const bool escapes = styled_ && text.size() > 1 && std::string_view("`*_#").find(text[1]) != std::string_view::npos;
    put_text(text.substr(escapes ? 1 : 0, 1), styles);
    return escapes ? 2 : 1;
  }
  const std::size_t end = std::min(text.find_first_of(marks), text.size());
  put_text(text.substr(0, end), styles);
  return end;
}

std::size_t MarkdownView::take_code(std::string_view text, Styles styles, bool complete) {
  const std::size_t size = run_of(text, '`');
  const std::string_view window = text.substr(0, longest_span);
  if (size == text.size() && !complete && size < longest_span) return 0;
  for (std::size_t at = size; at < window.size();) {
    at = window.find('`', at);
    if (at == std::string_view::npos) break;
    const std::size_t run = run_of(window, '`', at);
    if (at + run == text.size() && !complete) return 0;
    if (run == size) {
      put_text(styled_ ? text.substr(size, at - size) : text.substr(0, at + size), styles | style_bit(Style::cyan));
      return at + size;
    }
    at += run;
  }
  if (!complete && text.size() < longest_span) return 0;
  put_text(text.substr(0, size), styles);
  return size;
}

std::size_t MarkdownView::take_emphasis(std::string_view text, Styles styles, bool complete) {
  const char mark = text.front();
  const std::size_t size = run_of(text, mark);
  if (size == text.size() && !complete) return 0;
  const bool opens = size <= 3 && size < text.size() && !is_blank_mark(text[size]) && !is_alphanumeric(before_);
  if (opens) {
    const std::string_view window = text.substr(0, longest_span);
    for (std::size_t at = size; at < window.size();) {
      at = window.find(mark, at);
      if (at == std::string_view::npos) break;
      const std::size_t run = run_of(window, mark, at);
      const std::size_t after = at + run;
      if (after == text.size() && !complete) return 0;
      if (run == size && !is_blank_mark(text[at - 1]) && (after == text.size() || !is_alphanumeric(text[after]))) {
        const Styles more = (size != 2 ? style_bit(Style::italic) : 0u) | (size != 1 ? style_bit(Style::bold) : 0u);
        if (!styled_) put_text(text.substr(0, size), styles);
        std::string_view inside = text.substr(size, at - size);
        for (before_ = ' '; !inside.empty();) {
          const std::size_t taken = take_inline(inside, styles | more, true);
          before_ = inside[taken - 1];
          inside.remove_prefix(taken);
        }
        if (!styled_) put_text(text.substr(0, size), styles);
        return after;
      }
      at = after;
    }
    if (!complete && text.size() < longest_span) return 0;
  }
  put_text(text.substr(0, size), styles);
  return size;
}

void MarkdownView::put_text(std::string_view text, Styles styles) {
  for (const char byte : text) {
    if (is_blank_mark(byte)) {
      flush_word();
      blanks_ += byte == '\t' ? 4 : 1;
      continue;
    }
    if (word_.empty() || word_.back().styles != styles) word_.push_back({styles, ""});
    word_.back().text += byte;
  }
  settle();
}

/// A word may be broken beside a wide character; what comes before the last such place is drawn. The last character waits: marks that belong
/// to it may follow.
void MarkdownView::settle() {
  std::vector<Run> part;
  std::size_t runs_done = 0, bytes_done = 0;
  bool wide_before = false, any = false;
  std::vector<Run> left = std::move(word_);
  word_.clear();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::string& text = left[i].text;
    for (std::size_t at = 0; at < text.size();) {
      const Character one = character_at(text, at);
      if (any && one.columns > 0 && (wide_before || one.columns == 2)) {
        for (; runs_done < i; ++runs_done, bytes_done = 0)
          part.push_back({left[runs_done].styles, left[runs_done].text.substr(bytes_done)});
        if (at > bytes_done) part.push_back({left[i].styles, text.substr(bytes_done, at - bytes_done)});
        bytes_done = at;
        emit(part);
        part.clear();
        word_goes_on_ = false;
      }
      any = true;
      wide_before = one.columns == 2 || (one.columns == 0 && wide_before);
      at += one.bytes;
    }
  }
  for (; runs_done < left.size(); ++runs_done, bytes_done = 0)
    if (bytes_done < left[runs_done].text.size()) word_.push_back({left[runs_done].styles, left[runs_done].text.substr(bytes_done)});
  constexpr std::size_t longest_word = 4096;  // bytes, whatever their columns
  std::size_t width = 0, bytes = 0;
  for (const Run& run : word_) {
    width += columns_of_text(run.text);
    bytes += run.text.size();
  }
  if (width <= columns_ && bytes <= longest_word) return;  // else it begins a row and fits into none: nothing waits for its end
  emit(word_);
  word_.clear();
  word_goes_on_ = true;
}

void MarkdownView::flush_word() {
  settle();
  if (!word_.empty()) emit(word_);
  word_.clear();
  word_goes_on_ = false;
}

/// One part that may not be broken, behind the blanks that wait; in a new row where it does not fit into this one.
void MarkdownView::emit(const std::vector<Run>& runs) {
  std::size_t width = 0;
  for (const Run& run : runs) width += columns_of_text(run.text);
  if (!word_goes_on_ && column_ + blanks_ + width > columns_ && column_ > columns_of_text(hang_)) {
    new_row();
  } else {
    out_.text(std::string(blanks_, ' '));
    column_ += blanks_;
  }
  blanks_ = 0;
  for (const Run& run : runs) emit(run.text, run.styles);
}

void MarkdownView::emit(std::string_view text, Styles styles) {
  if (text.empty()) return;
  const Styles all = styled_ ? styles | base_ : 0;
  for (unsigned style = 0; style < 16; ++style)
    if ((all >> style & 1) != 0) out_.style(static_cast<Style>(style));
  out_.text(text);
  if (all != 0) out_.no_style();
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const auto columns = static_cast<std::size_t>(one.columns);
    column_ = column_ + columns > columns_ ? columns : column_ + columns;  // the terminal itself breaks what is longer than a row
    at += one.bytes;
  }
}

void MarkdownView::new_row() {
  out_.rows("\n");
  column_ = 0;
  emit(hang_, style_bit(Style::dim));
}

void MarkdownView::finish_line() {
  flush_word();
  out_.rows("\n");
  column_ = blanks_ = 0;
  in_line_ = verbatim_ = false;
  block_ = 0;
  hang_.clear();
  before_ = ' ';
}

}  // namespace quern::cli
